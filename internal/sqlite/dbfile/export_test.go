package dbfile

import (
	"slices"
	"sync"
	"testing"

	"plantstore/internal/store"
)

// AddMigration adds a migration until the end of the test. Setenv refuses a parallel test, because all tests share the
// migrations.
func AddMigration(t testing.TB, sql string) {
	t.Helper()
	t.Setenv("PLANTSTORE_TEST_MIGRATION", sql)
	before := migrations
	set := func(all []store.Migration) { migrations, expectedSchemas = all, sync.OnceValues(createExpected) }
	set(append(slices.Clip(before), store.Migration{File: "next.sql", SQL: sql}))
	t.Cleanup(func() { set(before) })
}
