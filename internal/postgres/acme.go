package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// ACME keeps the account and the certificates of an ACME client, which all servers of the store share. It implements
// acme.Storage.
type ACME struct{ engine *Engine }

// ACME returns the storage of an ACME client in the database.
func (e *Engine) ACME() ACME { return ACME{e} }

// Load implements acme.Storage.
func (a ACME) Load(ctx context.Context, key string) (value []byte, err error) {
	err = a.engine.db.QueryRow(ctx, "SELECT value FROM plantstore_acme WHERE key = $1", key).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return value, classify(err)
}

// Save implements acme.Storage.
func (a ACME) Save(ctx context.Context, key string, value []byte) error {
	_, err := a.engine.db.Exec(ctx, `INSERT INTO plantstore_acme (key, value) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return classify(err)
}

// Delete implements acme.Storage.
func (a ACME) Delete(ctx context.Context, key string) error {
	_, err := a.engine.db.Exec(ctx, "DELETE FROM plantstore_acme WHERE key = $1", key)
	return classify(err)
}

// TryLock implements acme.Storage with an advisory lock of a transaction of its own: a pooler keeps the session of a
// transaction until it ends. Statements on the table do not wait for it.
func (a ACME) TryLock(ctx context.Context) (unlock func(), locked bool, err error) {
	tx, err := a.engine.beginForever(ctx)
	if err != nil {
		return nil, false, classify(err)
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
		defer cancel()
		_ = tx.Rollback(ctx) // if it fails, it closes the connection, which releases the lock too
	}
	// The lock is for this store; the lock of a migration has one number, not two.
	const sql = "SELECT pg_catalog.pg_try_advisory_xact_lock($1, 'plantstore_acme'::regclass::oid::int)"
	err = tx.QueryRow(ctx, sql, int32(migrationLock)).Scan(&locked)
	if err != nil || !locked {
		unlock()
		return nil, false, classify(err)
	}
	return unlock, true, nil
}
