package postgres

import (
	"slices"
	"testing"

	"plantstore/internal/store"
)

// AddMigration adds a migration that adds the column tokens.note of type text, until the end of the test. Setenv
// refuses a parallel test, because all tests share the migrations.
func AddMigration(t testing.TB, sql string) {
	t.Helper()
	t.Setenv("PLANTSTORE_TEST_MIGRATION", sql)
	before, facts := migrations, expectedFacts
	migrations = append(slices.Clip(before), store.Migration{File: "next.sql", SQL: sql})
	expectedFacts = append(slices.Clip(facts), []fact{{"column", "tokens", "note", "text"}})
	t.Cleanup(func() { migrations, expectedFacts = before, facts })
}
