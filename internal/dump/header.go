package dump

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// HeaderError refuses a CSV file whose columns are not clear. A user chooses them, with the likely ones as a start.
type HeaderError struct {
	Line   int64    // of the header
	Reason string   // such as "the header has no column id"
	Header []string // the columns of the file
	Likely Options  // the options of Open, with all columns that are clear or likely

	rows [][]string // the first ones
}

// newHeaderError returns a HeaderError, or another one for a first row that is no header.
func newHeaderError(line int64, reason error, header []string, likely Options, rows [][]string) error {
	noName := func(cell string) bool { return cell == "" || isID(cell) }
	if likely.Columns["name"] == "" && (len(header) == 1 || slices.ContainsFunc(header, noName)) {
		return fmt.Errorf("line %d: the first row must have the names of the columns, such as id, name and tag; got %s; "+
			"add a row above it", line, listed(header))
	}
	return &HeaderError{line, reason.Error(), header, likely, rows}
}

func isID(cell string) bool {
	_, code := parseID([]byte(cell))
	return code == 0
}

func (e *HeaderError) Error() string {
	return fmt.Sprintf("line %d: %s; the columns are %s", e.Line, e.Reason, listed(e.Header))
}

// columns maps the cells of a row to the members of a plant.
type columns struct {
	count         int   // cells in each row
	id, name, tag int   // index of the cell; -1 if absent
	from          []int // cells whose texts make the id
}

// findColumns finds the columns of a header, and adds them to found. The error is the reason of a HeaderError.
func findColumns(header []string, o Options, found *Found) (c columns, err error) {
	c = columns{count: len(header), id: -1, name: -1, tag: -1}
	found.Header, found.Columns = header, map[string]string{}
	found.IDFrom, found.NumberFrom = nil, o.NumberFrom
	for _, theirs := range o.IDFrom {
		i, err := findColumn(header, theirs)
		switch {
		case err != nil:
			return c, err
		case i < 0:
			return c, fmt.Errorf("the header has no column %q", theirs)
		}
		c.from = append(c.from, i)
		found.IDFrom = append(found.IDFrom, header[i])
	}
	var missing []string
	for _, column := range []struct {
		ours string
		at   *int
	}{{"id", &c.id}, {"name", &c.name}, {"tag", &c.tag}} {
		theirs, chosen := o.Columns[column.ours]
		if chosen && theirs == "" || column.at == &c.id && (len(c.from) > 0 || o.NumberFrom != nil) {
			continue
		}
		if !chosen {
			theirs = column.ours
		}
		i, err := findColumn(header, theirs)
		switch {
		case err != nil:
			return c, err
		case i >= 0:
			*column.at = i
			found.Columns[column.ours] = header[i]
		case chosen:
			return c, fmt.Errorf("the header has no column %q", theirs)
		case column.at != &c.tag:
			missing = append(missing, column.ours)
		case likelyTag(header) >= 0:
			return c, fmt.Errorf("the header has no column tag, but %q", header[likelyTag(header)])
		}
	}
	for i, name := range header {
		if i != c.id && i != c.name && i != c.tag && !slices.Contains(c.from, i) && name != "" {
			found.Ignored = append(found.Ignored, name)
		}
	}
	switch len(missing) {
	case 0:
		return c, nil
	case 1:
		return c, fmt.Errorf("the header has no column %s", missing[0])
	}
	return c, fmt.Errorf("the header has no columns %s", strings.Join(missing, " and "))
}

// findColumn returns the index of a column: of the one with the very name, else of the one whose name differs only in
// case and outer blanks. It returns -1 if there is none, and an error if there are two.
func findColumn(header []string, name string) (int, error) {
	for _, same := range []func(string) bool{
		func(other string) bool { return other == name },
		func(other string) bool { return strings.EqualFold(trimBlanks(other), trimBlanks(name)) },
	} {
		if i := slices.IndexFunc(header, same); i >= 0 {
			if slices.ContainsFunc(header[i+1:], same) {
				return -1, fmt.Errorf("the header has the column %s twice", name)
			}
			return i, nil
		}
	}
	return -1, nil
}

// trimBlanks removes white space and invisible characters at the ends.
func trimBlanks(name string) string {
	return strings.TrimFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
}

// The names of columns, as columnKey returns them, that are likely the id and the name, the likeliest first.
var (
	idKeys = []string{
		"id", "ids", "plantid", "objectid", "fid", "treeid", "gid", "accessionid", "accessionnumber", "accession", "taxonid",
		"recordid", "gbifid", "uniqueid", "uuid", "guid", "key", "code", "number", "no", "nr", "num", "symbol", "barcode",
	}
	nameKeys = []string{
		"scientificname", "sciname", "latinname", "botanicalname", "botanic", "taxonname", "taxon", "speciesname", "species",
		"names", "plantname", "binomial", "fullname", "acceptedname", "commonname", "nomcommun", "name", "plant", "genus",
		"epithet", "cultivar", "variety", "title", "common",
	}
	tagKeys = []string{"tags", "tagname", "planttag"}
)

// columnKey returns a name without case, blanks and punctuation.
func columnKey(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

func likelyTag(header []string) int {
	return slices.IndexFunc(header, func(name string) bool { return slices.Contains(tagKeys, columnKey(name)) })
}

// likelyOptions returns o with the columns that are clear, and the likely choice for the others, from their names and
// the first rows.
func likelyOptions(o Options, header []string, rows [][]string) Options {
	columns := map[string]string{}
	for _, ours := range []string{"id", "name", "tag"} {
		theirs, chosen := o.Columns[ours]
		if chosen && theirs == "" {
			columns[ours] = ""
		} else if i, err := findColumn(header, cmp.Or(theirs, ours)); err == nil && i >= 0 {
			columns[ours] = header[i]
		}
	}
	o.Columns = columns
	o.IDFrom = slices.DeleteFunc(slices.Clone(o.IDFrom), func(theirs string) bool {
		i, err := findColumn(header, theirs)
		return err != nil || i < 0
	})
	choose := func(ours string, i int) {
		if _, known := columns[ours]; !known && i >= 0 {
			columns[ours] = header[i]
		}
	}
	if slices.ContainsFunc(rows, func(row []string) bool { return !utf8.ValidString(strings.Join(row, "")) }) {
		o.Encoding = "windows-1252"
	}
	choose("tag", likelyTag(header))
	name := likely(header, nameKeys, func(i int) bool { return len(rows) == 0 || textOf(rows, i) == allTexts })
	if name < 0 {
		name = likely(header, nameKeys, func(i int) bool { return textOf(rows, i) == someTexts })
	}
	choose("name", name)
	if len(o.IDFrom) > 0 || o.NumberFrom != nil {
		return o
	}
	id, _ := findColumn(header, columns["id"])
	if id < 0 {
		id = likely(header, idKeys, func(i int) bool { return header[i] != columns["name"] && isKey(rows, i) })
	}
	switch {
	case id < 0:
		o.NumberFrom = new(int64(1))
	case isKey(rows, id) && textOf(rows, id) >= someTexts:
		delete(columns, "id")
		o.IDFrom = []string{header[id]}
	default:
		choose("id", id)
	}
	return o
}

// likely returns the first column with one of the keys, else with a name that ends with one; -1 if none fits.
func likely(header []string, keys []string, fits func(i int) bool) int {
	for _, same := range []func(name, key string) bool{
		func(name, key string) bool { return name == key },
		strings.HasSuffix,
		strings.HasPrefix,
	} {
		for _, key := range keys {
			for i, name := range header {
				if same(columnKey(name), key) && fits(i) {
					return i
				}
			}
		}
	}
	return -1
}

// texts is what the cells of a column contain.
type texts int

const (
	noTexts   texts = iota // nothing, or integers
	someTexts              // empty cells too
	allTexts
)

func textOf(rows [][]string, column int) texts {
	t, filled := noTexts, true
	for _, row := range rows {
		switch {
		case column >= len(row) || row[column] == "":
			filled = false
		case !isID(row[column]):
			t = someTexts
		}
	}
	if t == someTexts && filled {
		return allTexts
	}
	return t
}

// isKey reports whether every row has another text in a column.
func isKey(rows [][]string, column int) bool {
	seen := map[string]bool{}
	for _, row := range rows {
		if column >= len(row) || row[column] == "" || seen[row[column]] {
			return false
		}
		seen[row[column]] = true
	}
	return true
}
