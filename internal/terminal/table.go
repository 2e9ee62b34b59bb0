package terminal

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Table aligns the columns of rows; an empty row separates the columns above from those below. Flush writes it.
type Table struct{ *tabwriter.Writer }

// NewTable returns a table on w without rows.
func NewTable(w io.Writer) Table { return Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Row adds a row. Each cell is printable, and a time is in the form of FormatTime.
func (t Table) Row(cells ...any) {
	texts := make([]string, 0, len(cells))
	for _, cell := range cells {
		if at, ok := cell.(time.Time); ok {
			cell = FormatTime(at)
		}
		texts = append(texts, Printable(fmt.Sprint(cell)))
	}
	fmt.Fprintln(t, strings.Join(texts, "\t"))
}
