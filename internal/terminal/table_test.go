package terminal

import (
	"strings"
	"testing"
	"time"
)

// TestTable tests that each section of a table has its own widths, and that a cell cannot add columns or lines.
func TestTable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := NewTable(&out)
	table.Row("ID", "NAME")
	table.Row(int64(-7), "Rosa\tcanina\n")
	table.Row()
	table.Row("REVOKED JWT", "KEPT UNTIL")
	table.Row("a", time.Time{})
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = "ID  NAME\n-7  Rosa\\tcanina\\n\n\nREVOKED JWT  KEPT UNTIL\na            never\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
