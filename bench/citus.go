package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// citusVariable is the URL of a database with the extension Citus, on the coordinator of a prepared cluster. The
// benchmark creates a schema in it for each run and removes it.
const citusVariable = "PLANTSTORE_TEST_CITUS"

// citusShards is the number of shards of the table plants.
const citusShards = 32

// citusStore is a store in a schema of a Citus cluster.
type citusStore struct{ base, schema string }

// startProductCitus starts the product on a new store with a distributed table plants.
func startProductCitus(ctx context.Context, b *bench, s *server) error {
	s.citus = &citusStore{base: os.Getenv(citusVariable), schema: fmt.Sprint("bench", time.Now().UnixNano())}
	if err := s.citus.execute(ctx, "CREATE SCHEMA "+s.citus.schema); err != nil {
		return err
	}
	at, err := s.citus.url()
	if err != nil {
		return err
	}
	if s.token, err = b.createToken(ctx, s.program, at); err != nil { // creates the tables
		return err
	}
	distribute := fmt.Sprintf("SELECT create_distributed_table('%s.plants', 'id', shard_count => %d)",
		s.citus.schema, citusShards)
	if err := s.citus.execute(ctx, distribute); err != nil {
		return err
	}
	return b.serve(ctx, s, at)
}

// url returns the address of the store.
func (c *citusStore) url() (string, error) {
	u, err := url.Parse(c.base)
	if err != nil {
		return "", fmt.Errorf("%s is no URL", citusVariable) // the error of Parse has the password
	}
	query := u.Query()
	query.Set("search_path", c.schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// execute runs a statement.
func (c *citusStore) execute(ctx context.Context, statement string) error {
	return c.connected(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

func (c *citusStore) connected(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, c.base)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(ctx))
}

func (c *citusStore) countRows(ctx context.Context) (n int64, err error) {
	err = c.connected(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*) FROM "+c.schema+".plants").Scan(&n)
	})
	return n, err
}

// remove removes the store.
func (c *citusStore) remove(ctx context.Context) error {
	return c.execute(ctx, "DROP SCHEMA IF EXISTS "+c.schema+" CASCADE")
}
