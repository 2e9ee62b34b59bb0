// Package sqlitetest has stores in SQLite files, for the tests of the engine and of its files.
package sqlitetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Main runs tests with the real path of TMPDIR, because messages have the real path of a store.
func Main(m *testing.M) {
	dir, err := filepath.EvalSymlinks(os.TempDir())
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		panic(err)
	}
	m.Run()
}

// Open opens an engine that logs to the test; the caller closes it.
func Open(t testing.TB, c sqlite.Config) *sqlite.Engine {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	e, err := sqlite.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return e
}

// Insert returns only the error of Insert.
func Insert(ctx context.Context, e *sqlite.Engine, batch []store.Create) error {
	_, err := e.Insert(ctx, batch)
	return err
}

// Batch returns plants with ascending ids.
func Batch(id int64, n int) []store.Create {
	batch := make([]store.Create, n)
	for i := range batch {
		batch[i] = store.Create{Plant: plant.NewPlant{ID: id + int64(i)}, At: time.Unix(0, 0)}
	}
	return batch
}

// Fill stores random plants in commits of random sizes, and three tokens.
func Fill(t testing.TB, e *sqlite.Engine, random *rand.Rand, commits int) {
	t.Helper()
	for i := range 3 {
		_, err := e.CreateToken(t.Context(), auth.Token{
			Name: fmt.Sprint("token", i), Hash: auth.HashOf(fmt.Sprint(random.Uint64())), Prefix: "pst_0abc",
			Scopes: auth.ScopeCreate, CreatedAt: time.UnixMicro(random.Int64N(1 << 50)),
		}, audit.Origin{})
		Must(t, err)
	}
	for range commits {
		batch := make([]store.Create, 1+random.IntN(200))
		for i := range batch {
			n := plant.NewPlant{ID: random.Int64(), Plant: plant.Plant{Name: strings.Repeat("n", 1+random.IntN(60))}}
			if random.IntN(3) > 0 {
				n.Tag = plant.Tagged(strings.Repeat("t", random.IntN(20)))
			}
			batch[i] = store.Create{Plant: n, By: 1, At: time.UnixMicro(random.Int64N(1 << 50))}
		}
		Must(t, Insert(t.Context(), e, batch))
	}
}

// Exec runs SQL on a file.
func Exec(t testing.TB, path, sql string) {
	t.Helper()
	c, err := sqlite3.Open(path)
	Must(t, err)
	Must(t, errors.Join(c.Exec(sql), c.Close()))
}

// Suffixes are the suffixes of Files.
var Suffixes = []string{"", "-wal", "-shm", "-mark"}

// Files are the contents of the files of a store, by suffix.
type Files map[string][]byte

// ReadFiles reads the files of a store.
func ReadFiles(t testing.TB, path string) Files {
	t.Helper()
	f := Files{}
	for _, suffix := range Suffixes {
		b, err := os.ReadFile(path + suffix)
		if !errors.Is(err, os.ErrNotExist) {
			Must(t, err)
			f[suffix] = b
		}
	}
	return f
}

// Durable is ReadFiles without the shared memory of the store's readers.
func Durable(t testing.TB, path string) Files {
	t.Helper()
	f := ReadFiles(t, path)
	delete(f, "-shm")
	return f
}

// WriteTo writes the files beside another path.
func (f Files) WriteTo(t testing.TB, path string) {
	t.Helper()
	for suffix, b := range f {
		Must(t, os.WriteFile(path+suffix, b, 0o600))
	}
}

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// MustWrite writes a file.
func MustWrite(t testing.TB, path, text string) {
	t.Helper()
	Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// MustRemove removes a file or a directory, if it exists.
func MustRemove(t testing.TB, path string) {
	t.Helper()
	Must(t, os.RemoveAll(path))
}
