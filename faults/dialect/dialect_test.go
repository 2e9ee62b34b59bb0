// Package dialect parses the statements of the engine for PostgreSQL with
// CockroachDB's grammar.
//
// The parser is a snapshot of 2022, between CockroachDB 22.1 and 22.2. Its module is
// under the Apache License; the files name the Business Source License, which became
// the Apache License for these versions in 2025. A statement that only a newer
// grammar takes may be worth rewriting: then older databases take it too.
package dialect

import (
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
)

// TestCockroachDB parses what is sent to a store that is served or filled. What is
// sent to one that is moved away CockroachDB does not take; see docs/explanation/sql.md.
func TestCockroachDB(t *testing.T) {
	t.Parallel()
	for _, statement := range serving(t) {
		if _, err := parser.Parse(statement); err != nil {
			t.Errorf("CockroachDB does not take it: %v\n%s", err, statement)
		}
	}
}

// TestControl shows that the grammar refuses what only PostgreSQL takes.
func TestControl(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		"SELECT EXISTS (SELECT FROM tokens)",
		"SELECT id FROM plants TABLESAMPLE SYSTEM (1)",
		"DROP TRIGGER IF EXISTS follow ON plants",
		"LOCK TABLE plants",
		"LISTEN plants",
	} {
		if _, err := parser.Parse(statement); err == nil {
			t.Errorf("it parses: %s", statement)
		}
	}
}

// serving reads the first part of statements.sql, a statement a line.
func serving(t *testing.T) (statements []string) {
	t.Helper()
	text, err := os.ReadFile("statements.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(text), "\n-- Serving\n")
	part, _, ended := strings.Cut(rest, "\n-- ")
	for line := range strings.Lines(part) {
		if line = strings.TrimSpace(line); line != "" {
			statements = append(statements, line)
		}
	}
	if !begun || !ended || len(statements) < 10 {
		t.Fatalf("statements.sql has %d statements", len(statements))
	}
	return statements
}
