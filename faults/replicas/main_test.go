// Package replicas runs servers on one PostgreSQL, cuts what is between them and
// it, and kills them, and looks whether the clients were told the truth.
//
//	go test -count=1 ./replicas                               the short form
//	go test -count=1 -timeout 0 -v ./replicas -args -long     1,000 answers lost, 100 servers killed
//	go test -count=1 -v ./replicas -args -seed 7              the same plants, requests and faults again
//
// PostgreSQL itself stays well: what it loses by itself is not looked for here.
package replicas

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"plantstore/faults/rig"
	"plantstore/internal/postgres/pgtest"
)

var (
	long = flag.Bool("long", false, "the long form")
	seed = flag.Uint64("seed", 0, "what decides the plants, the requests and the faults, but not which meets which other; 0: another each time")
)

// size chooses by the form.
func size(short, inLong int) int {
	if *long {
		return inLong
	}
	return short
}

// database is the PostgreSQL of all tests; nil if there is none.
var database *pgtest.Server

// programDir is where the program lies that all tests but the controls use.
var programDir string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // most of the tests wait most of the time
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if programDir, err = os.MkdirTemp("", "replicas"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(programDir)
	database, err = pgtest.Start(context.Background())
	switch {
	case errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true":
		defer fmt.Fprintln(os.Stderr, "NOTHING OF THIS PACKAGE WAS TESTED:", err)
		return m.Run(), nil
	case err != nil:
		return 1, err
	}
	code = m.Run()
	return code, database.Stop()
}

// building guards path.
var (
	building sync.Mutex
	path     string // of the program, once it is built
)

// inDir is a test whose temporary directory outlives it.
type inDir struct{ testing.TB }

// TempDir returns a directory that is removed after all tests.
func (inDir) TempDir() string { return programDir }

// build builds the program as it is, once for all tests.
func build(t testing.TB) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if path == "" {
		path = rig.Build(inDir{t})
	}
	return path
}

// newDatabase returns the URL of an empty database.
func newDatabase(t testing.TB) string {
	t.Helper()
	if database == nil {
		t.Skip("there is no PostgreSQL")
	}
	url, err := database.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// rows reads all plants from the table itself: a store may not show a plant that
// is there twice.
func rows(t testing.TB, url string) map[int64][]content {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	type row struct {
		ID        int64
		Name, Tag string
	}
	found, _ := c.Query(t.Context(), "SELECT id, name, coalesce(tag, '') FROM plants") // the error comes with the rows
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[int64][]content, len(all))
	for _, r := range all {
		there[r.ID] = append(there[r.ID], content{r.Name, r.Tag})
	}
	return there
}

// first joins the first errors of many.
func first(faults []error) error {
	const most = 5
	if len(faults) <= most {
		return errors.Join(faults...)
	}
	return fmt.Errorf("%w\nand %d more", errors.Join(faults[:most]...), len(faults)-most)
}

// tally counts how often there is which outcome.
func tally(history []operation) map[string]int {
	counts := map[string]int{}
	for i := range history {
		counts[history[i].outcome.String()]++
	}
	return counts
}
