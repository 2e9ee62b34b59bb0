package dbfile_test

import (
	"os"
	"testing"

	"plantstore/internal/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { sqlitetest.Main(m) }

func noProgress(int64, int64) {}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func mustRemove(t testing.TB, path string) {
	t.Helper()
	must(t, os.RemoveAll(path))
}
