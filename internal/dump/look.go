package dump

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Head is the start of a file, for a person who chooses what its columns are.
type Head struct {
	Found Found      // with the likely columns if Open refuses the header
	Rows  [][]string // the cells of the first rows; of JSON the id, the name and the tag of the first plants
}

// Look returns the start of a file with at most some rows. Unlike Open, it accepts any header.
func Look(ctx context.Context, r io.Reader, o Options, rowsMax int) (h Head, err error) {
	if err := o.Check(); err != nil {
		return Head{}, err
	}
	f := &File{options: o, found: Found{Format: o.Format}}
	defer f.Close()
	err = f.open(ctx, r)
	header, refused := errors.AsType[*HeaderError](err)
	switch table, ok := f.rows.(*csvReader); {
	case refused:
		h.Rows, f.found.Ignored = header.rows, nil
		_, _ = findColumns(header.Header, header.Likely, &f.found) // finds those that are clear
	case err != nil:
		return Head{}, err
	case ok:
		h.Rows = table.sample()
	default:
		h.Rows = f.sample(rowsMax)
	}
	h.Found = f.found
	h.Rows = slices.DeleteFunc(h.Rows, func(cells []string) bool { return strings.Join(cells, "") == "" })
	h.Rows = h.Rows[:min(len(h.Rows), rowsMax)]
	return h, nil
}

// sample returns the first rows of a file of JSON, with the reason in the place of the name of an invalid one.
func (f *File) sample(rowsMax int) (rows [][]string) {
	for row, err := range f.Rows() {
		if err != nil || len(rows) == rowsMax {
			break // the import reports the error
		}
		tag, _ := row.Plant.Tag.Get()
		cells := []string{strconv.FormatInt(row.Plant.ID, 10), row.Plant.Name, tag}
		if row.Err != nil {
			cells = []string{"", row.Err.Error(), ""}
		}
		rows = append(rows, cells)
	}
	return rows
}
