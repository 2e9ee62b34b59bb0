package postgres

import (
	"slices"
	"testing"

	"plantstore/internal/store"
)

// AddMigration adds a migration to the next schema, until the end of the test. Setenv refuses a parallel test, because
// all tests share the migrations.
func AddMigration(t testing.TB, sql string) {
	t.Helper()
	t.Setenv("PLANTSTORE_TEST_MIGRATION", sql)
	before := migrations
	migrations = append(slices.Clip(before), store.Migration{File: "next.sql", SQL: sql})
	t.Cleanup(func() { migrations = before })
}
