// Package webhooks kills servers and receivers of webhooks at random, on both engines, and compares the delivered
// events with the stored plants.
//
//	go test -count=1 ./webhooks                               short form
//	go test -count=1 -timeout 0 -v ./webhooks -args -long     long form
//	go test -count=1 -v ./webhooks -args -seed 7              repeat the plants and kills of a seed
package webhooks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"plantstore/faults/rig"
	"plantstore/internal/postgres/pgtest"
)

var (
	long = flag.Bool("long", false, "run the long form")
	seed = flag.Uint64("seed", 0, "`seed` of the plants and kills, but not of their timing; 0: random")
)

// size returns the number of the selected form.
func size(inShort, inLong int) int {
	if *long {
		return inLong
	}
	return inShort
}

// database is the PostgreSQL of all tests; nil if it is not installed.
var database *pgtest.Server

func TestMain(m *testing.M) {
	if ledger := os.Getenv(ledgerVariable); ledger != "" {
		receive(ledger) // does not return
	}
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	database, err = pgtest.Start(context.Background())
	switch {
	case errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true":
		return m.Run(), nil
	case err != nil:
		return 1, err
	}
	code = m.Run()
	return code, database.Stop()
}

// newStore returns the address of an empty store: a file, or a database for several servers.
func newStore(t testing.TB, inDatabase bool) string {
	t.Helper()
	if !inDatabase {
		return filepath.Join(t.TempDir(), "plantstore.db")
	}
	rig.Need(t, database != nil, "PostgreSQL")
	url, err := database.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}
