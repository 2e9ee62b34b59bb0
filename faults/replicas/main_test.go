// Package replicas runs servers on one PostgreSQL, kills them, injects faults into their connections and moves stores.
// It compares the responses to the clients with the stored plants.
//
//	go test -count=1 ./replicas                               short form
//	go test -count=1 -timeout 0 -v ./replicas -args -long     long form: 1,000 lost responses, 100 kills
//	go test -count=1 -v ./replicas -args -seed 7              repeat the plants, requests and faults of a seed
//
// PostgreSQL itself does not fail here; the package failover has its failures.
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
	long = flag.Bool("long", false, "run the long form")
	seed = flag.Uint64("seed", 0, "`seed` of the plants, requests and faults, but not of their timing; 0: random")
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

// programDir is the directory of the program that build returns.
var programDir string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // most tests are idle most of the time
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
		defer fmt.Fprintln(os.Stderr, "NO TEST OF THE PACKAGE REPLICAS RAN:", err)
		return m.Run(), nil
	case err != nil:
		return 1, err
	}
	code = m.Run()
	return code, database.Stop()
}

// buildMu guards programPath.
var (
	buildMu     sync.Mutex
	programPath string // empty until build has built the program
)

// sharedDir is a test whose temporary directory remains until all tests have ended.
type sharedDir struct{ testing.TB }

// TempDir returns programDir.
func (sharedDir) TempDir() string { return programDir }

// build builds the program without a weakness, once for all tests.
func build(t testing.TB) string {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	if programPath == "" {
		programPath = rig.Build(sharedDir{t})
	}
	return programPath
}

// newDatabase returns the URL of an empty database.
func newDatabase(t testing.TB) string {
	t.Helper()
	if database == nil {
		t.Skip("PostgreSQL is not installed")
	}
	url, err := database.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// storedPlants reads all plants from the table. The program itself could hide a plant that is stored twice.
func storedPlants(t testing.TB, url string) map[int64][]content {
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
	result, _ := c.Query(t.Context(), "SELECT id, name, coalesce(tag, '') FROM plants") // CollectRows returns the error
	rows, err := pgx.CollectRows(result, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	stored := make(map[int64][]content, len(rows))
	for _, r := range rows {
		stored[r.ID] = append(stored[r.ID], content{r.Name, r.Tag})
	}
	return stored
}

// joinFirst joins the first errors and counts the others.
func joinFirst(errs []error) error {
	const errorsMax = 5
	if len(errs) <= errorsMax {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w\nand %d more", errors.Join(errs[:errorsMax]...), len(errs)-errorsMax)
}

// requireDetection fails a control test whose harness found no violation.
func requireDetection(t *testing.T, violations []error) {
	t.Helper()
	if len(violations) == 0 {
		t.Fatal("the harness did not detect the weakness")
	}
	t.Logf("detected by %d violations, the first: %v", len(violations), violations[0])
}

// countOutcomes counts the operations with each outcome.
func countOutcomes(history []operation) map[string]int {
	counts := map[string]int{}
	for i := range history {
		counts[history[i].outcome.String()]++
	}
	return counts
}
