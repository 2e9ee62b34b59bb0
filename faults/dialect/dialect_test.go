// Package dialect parses the statements of the PostgreSQL engine with CockroachDB's grammar.
//
// The parser is a snapshot of 2022, between CockroachDB 22.1 and 22.2. Its module has the Apache License. The files
// name the Business Source License, which changed to the Apache License for these versions in 2025. If only a newer
// grammar accepts a statement, consider rewriting the statement, so that older databases accept it, too.
package dialect

import (
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
)

// TestCockroachDB parses the statements that a served or filled store receives. CockroachDB does not accept those for a
// store that is moved; see docs/explanation/sql.md.
func TestCockroachDB(t *testing.T) {
	t.Parallel()
	for _, statement := range serving(t) {
		if _, err := parser.Parse(statement); err != nil {
			t.Errorf("CockroachDB does not accept the statement: %v\n%s", err, statement)
		}
	}
}

// TestControl shows that the grammar rejects statements that only PostgreSQL accepts.
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
			t.Errorf("the grammar accepts %s", statement)
		}
	}
}

// serving returns the first part of statements.sql, which has a statement on each line.
func serving(t *testing.T) (statements []string) {
	t.Helper()
	text, err := os.ReadFile("statements.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, started := strings.Cut(string(text), "\n-- Serving\n")
	part, _, ended := strings.Cut(rest, "\n-- ")
	for line := range strings.Lines(part) {
		if line = strings.TrimSpace(line); line != "" {
			statements = append(statements, line)
		}
	}
	if !started || !ended || len(statements) < 10 {
		t.Fatalf("statements.sql has %d statements", len(statements))
	}
	return statements
}
