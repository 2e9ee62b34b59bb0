package main

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// operations are the operations of the commands that work on a store or, with --server, on a running server: local and
// remote implement them. The errors wrap those of package store.
type operations interface {
	// plant returns a plant, or store.ErrNotFound.
	plant(ctx context.Context, id int64) (plant.Record, error)

	// plants returns the plants of a query by ascending id. It may return more than the limit. An error ends the
	// sequence.
	plants(ctx context.Context, q store.Query) iter.Seq2[plant.Record, error]

	// credentials returns the credentials of a kind, or all for "", by ascending id.
	credentials(ctx context.Context, kind string) ([]admin.Credential, error)

	// mint creates a token. It returns store.ErrNameTaken if a valid token has the name.
	mint(ctx context.Context, n admin.NewToken) (admin.Minted, error)

	// rotate replaces a token. It returns store.ErrNotFound if no valid token has the name.
	rotate(ctx context.Context, r admin.Rotation) (admin.Minted, error)

	// revoke revokes credentials and returns them by ascending id. It returns store.ErrNotFound if it revokes no token.
	revoke(ctx context.Context, r admin.Revocation) ([]admin.Credential, error)

	// auditEntries returns the entries of a query by ascending sequence number, and possibly others.
	auditEntries(ctx context.Context, q auditQuery) iter.Seq2[admin.AuditEntry, error]

	// verifyAudit verifies the audit log, and that it has an entry. The error wraps store.ErrAuditPruned if that entry
	// was pruned.
	verifyAudit(ctx context.Context, expected audit.Link) (admin.AuditVerification, error)

	// deadLetters returns the dead letters in the order of webhook and plant. An error ends the sequence.
	deadLetters(ctx context.Context) iter.Seq2[admin.DeadLetter, error]

	// changeDead retries or drops some of the selected dead letters.
	changeDead(ctx context.Context, change deadChange, selector store.DeadSelector) (admin.DeadLettersChanged, error)
}

// auditQuery selects entries of the audit log.
type auditQuery struct {
	since  time.Time
	actor  string // empty: all
	newest int    // only the newest ones; 0: all
}

// operate runs do on the store of the settings or, with --server, on a running server.
func (p *program) operate(
	cmd *cobra.Command, s *settings, f *serverFlags, o engineOptions, do func(context.Context, operations) error,
) error {
	if f.url == "" {
		if err := f.checkUnused(cmd.Flags()); err != nil {
			return err
		}
		return p.withStore(cmd, s, o, func(ctx context.Context, engine store.Engine) error {
			return do(ctx, &local{p, s, engine})
		})
	}
	return p.withServer(cmd, s, f, func(ctx context.Context, r *remote) error { return do(ctx, r) })
}

// local implements operations on an open store.
type local struct {
	p      *program
	s      *settings
	engine store.Engine
}

func (l *local) plant(ctx context.Context, id int64) (plant.Record, error) {
	return l.engine.Get(ctx, id)
}

func (l *local) plants(ctx context.Context, q store.Query) iter.Seq2[plant.Record, error] {
	return allRecords(ctx, l.engine, q)
}

func (l *local) credentials(ctx context.Context, kind string) ([]admin.Credential, error) {
	tokens, err := l.engine.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(admin.NewCredentials(tokens, time.Now()), func(c admin.Credential) bool {
		return kind != "" && c.Kind != kind
	}), nil
}

func (l *local) mint(ctx context.Context, n admin.NewToken) (admin.Minted, error) {
	return admin.Mint(ctx, l.engine, n, l.p.operator())
}

func (l *local) rotate(ctx context.Context, r admin.Rotation) (admin.Minted, error) {
	return admin.Rotate(ctx, l.engine, r, l.p.operator())
}

func (l *local) revoke(ctx context.Context, r admin.Revocation) ([]admin.Credential, error) {
	revoked, err := admin.Revoke(ctx, l.engine, r, l.p.operator())
	if unrecorded, ok := errors.AsType[*store.Unrecorded](err); ok {
		l.p.warnUnaudited(unrecorded.Cause)
		return revoked, nil
	}
	return revoked, err
}

func (l *local) auditEntries(ctx context.Context, _ auditQuery) iter.Seq2[admin.AuditEntry, error] {
	rows := audit.Rows(math.MinInt64, func(after int64, limit int) ([]audit.Row, error) {
		return l.engine.AuditRows(ctx, after, limit)
	})
	return func(yield func(admin.AuditEntry, error) bool) {
		for row, err := range rows {
			e, damage := row.Entry()
			e.Sequence = row.Sequence
			if !yield(admin.AuditEntry{Entry: e, Damage: damage}, err) || err != nil {
				return
			}
		}
	}
}

func (l *local) verifyAudit(ctx context.Context, expected audit.Link) (admin.AuditVerification, error) {
	return admin.VerifyAudit(ctx, l.engine, l.s.db.String(), expected)
}
