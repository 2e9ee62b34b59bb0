package dump

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"plantstore/internal/plant"
)

// Options say how Open reads a file. The zero value finds out everything. A user gives the others for a file with
// another header, as flags of import, as a query or in a form.
type Options struct {
	Format   Format `json:"format,omitempty"`   // empty: by the first byte
	Encoding string `json:"encoding,omitempty"` // one of Encodings; empty: UTF-8 or UTF-16

	// The rest is for CSV. Columns has the column of the file for id, name and tag; an empty one for tag is no tag. The
	// others are found by their names.
	Columns         map[string]string `json:"columns,omitempty"`
	IDFrom          []string          `json:"id_from,omitempty"`     // columns whose texts make the id
	NumberFrom      *int64            `json:"number_from,omitempty"` // id of the first row; each next row has the next one
	AllowEmptyNames bool              `json:"allow_empty_names,omitempty"`

	// Limits; 0 is the limit of Open. Lower ones bound the memory. RatioMax bounds the content of a compressed file above
	// 16 MiB, as a multiple of its size: a small file could otherwise keep the caller busy for hours. 0: no bound.
	RowMax   int   `json:"-"` // bytes of a row
	PlantMax int   `json:"-"` // bytes of a plant as JSON
	RatioMax int64 `json:"-"`
}

// charmaps are the encodings of older programs on Windows and Macintosh. No file says which one it has.
var charmaps = map[string]*charmap.Charmap{
	"windows-1250": charmap.Windows1250, "windows-1251": charmap.Windows1251, "windows-1252": charmap.Windows1252,
	"macintosh": charmap.Macintosh,
}

// Encodings returns the names of the encodings that a user chooses.
func Encodings() []string { return slices.Sorted(maps.Keys(charmaps)) }

// SetColumn adds a column as a user gives it, such as name=Scientific name, or tag= for no tag.
func (o *Options) SetColumn(text string) error {
	ours, theirs, ok := strings.Cut(text, "=")
	if !ok || ours != "id" && ours != "name" && ours != "tag" {
		return fmt.Errorf("column must be id=COLUMN, name=COLUMN, tag=COLUMN, or tag= for no tag; got %.100q", text)
	}
	if o.Columns == nil {
		o.Columns = map[string]string{}
	}
	o.Columns[ours] = theirs
	return nil
}

// Check returns an error for options that no file can have.
func (o *Options) Check() error {
	id, hasID := o.Columns["id"]
	name, hasName := o.Columns["name"]
	switch {
	case o.Encoding != "" && charmaps[o.Encoding] == nil:
		return fmt.Errorf("unknown encoding %.100q; use %s, or none for UTF-8 and UTF-16",
			o.Encoding, strings.Join(Encodings(), ", "))
	case hasID && id == "", hasName && name == "", slices.Contains(o.IDFrom, ""):
		return errors.New("the name of a column is empty; only the column for tags may be empty")
	case hasID && (len(o.IDFrom) > 0 || o.NumberFrom != nil), len(o.IDFrom) > 0 && o.NumberFrom != nil:
		return errors.New("ids come from one place: a column, the texts of columns, or a number; choose one of them")
	}
	return nil
}

// Found is what Open has found out about a file.
type Found struct {
	Format      Format      `json:"format"`
	Compression Compression `json:"compression,omitempty"`
	Encoding    string      `json:"encoding"`

	// CSV
	Separator  string            `json:"separator,omitempty"`
	Columns    map[string]string `json:"columns,omitempty"` // of the file for id, name and tag; a made id has none
	IDFrom     []string          `json:"id_from,omitempty"`
	NumberFrom *int64            `json:"number_from,omitempty"`
	Header     []string          `json:"header,omitempty"` // all columns of the file

	Ignored []string `json:"ignored,omitempty"` // columns that are not read

	// JSON: the number of rows with a member that is not read, by its name; complete after the last row.
	Members map[string]int64 `json:"ignored_members,omitempty"`
}

// String returns one line, such as "UTF-16, tab-separated, columns id, name, tag; ignored: family, cover".
func (f Found) String() string {
	var parts []string
	if f.Compression != None {
		parts = append(parts, string(f.Compression))
	}
	parts = append(parts, f.Encoding)
	switch f.Format {
	case JSONL:
		parts = append(parts, "JSON Lines")
	case JSON:
		parts = append(parts, "JSON array")
	default:
		parts = append(parts, separatorNames[f.Separator]+"-separated", "columns "+strings.Join(f.columns(), ", "))
	}
	text := strings.Join(parts, ", ")
	var ignored []string
	if len(f.Ignored) > 0 {
		ignored = append(ignored, listed(f.Ignored))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Members)) {
		rows := "1 row"
		if n := f.Members[name]; n > 1 {
			rows = fmt.Sprint(n, " rows")
		}
		ignored = append(ignored, shown(name)+" in "+rows)
	}
	if len(ignored) > 0 {
		text += "; ignored: " + strings.Join(ignored, ", ")
	}
	return text
}

var separatorNames = map[string]string{",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}

// columns returns the columns for a person: id, and "Scientific name" as name.
func (f Found) columns() (all []string) {
	for _, ours := range []string{"id", "name", "tag"} {
		theirs, ok := f.Columns[ours]
		switch {
		case ours == "id" && f.NumberFrom != nil:
			all = append(all, fmt.Sprintf("id (numbers from %d)", *f.NumberFrom))
		case ours == "id" && len(f.IDFrom) > 0:
			all = append(all, "id (made from "+listed(f.IDFrom)+")")
		case ok:
			all = append(all, label(ours, theirs))
		}
	}
	return all
}

// File is an open file of plants.
type File struct {
	found   Found
	members unknownMembers // of found
	options Options
	rows    rowReader
	content io.ReadCloser
}

// rowReader reads the rows of a format.
type rowReader interface {
	open(f *File) error // reads up to the first row
	next(row *Row) error
}

// Open looks at the start of r and finds out what Options leave open: the compression, the encoding, and of a CSV file
// the separator, the line end and the columns. Its error is a *HeaderError if the columns are not clear. Reads end with
// the context.
//
// The caller must close the File; that does not close r.
func Open(ctx context.Context, r io.Reader, o Options) (*File, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	f := &File{options: o, members: unknownMembers{}, found: Found{Format: o.Format}}
	if err := f.open(ctx, r); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open(ctx context.Context, r io.Reader) (err error) {
	f.content, f.found.Compression, err = decompress(ctx, r, f.options.RatioMax)
	if err != nil {
		return err
	}
	w := newWindow(f.content, cmp.Or(f.options.RowMax, rowBytesMax))
	head := w.peek(tarMagicEnd)
	if err := foreign(head); err != nil {
		return err
	}
	f.found.Encoding = encodingOf(head, f.options.Encoding)
	switch f.found.Encoding {
	case "UTF-16LE":
		w.decode(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewDecoder())
	case "UTF-16BE":
		w.decode(unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewDecoder())
	case f.options.Encoding:
		w.decode(charmaps[f.found.Encoding].NewDecoder())
	}
	w.skipByteOrderMark()
	if f.found.Format == "" {
		f.found.Format = formatOf(bytes.TrimLeft(w.peek(tarMagicEnd), " \t\r\n"))
	}
	if o := f.options; f.found.Format != CSV && (len(o.Columns) > 0 || len(o.IDFrom) > 0 || o.NumberFrom != nil) {
		return errors.New("only a CSV file has columns; a JSON file has the members id, name and tag")
	}
	switch f.found.Format {
	case CSV:
		f.rows = &csvReader{window: w}
	case JSONL:
		f.rows = &lineReader{w, f.members}
	default:
		f.rows = &arrayReader{window: w, members: f.members}
	}
	if err := f.rows.open(f); !isEnd(err) {
		return err
	}
	return nil
}

// formatOf returns the format of a file that begins with head after white space.
func formatOf(head []byte) Format {
	switch {
	case bytes.HasPrefix(head, []byte{'['}):
		return JSON
	case bytes.HasPrefix(head, []byte{'{'}):
		return JSONL
	}
	return CSV
}

// encodingOf returns the encoding of a file with a head. A byte order mark takes precedence over the user's choice.
// UTF-16 without a mark has NUL bytes, which no plant has.
func encodingOf(head []byte, chosen string) string {
	var start [4]byte
	n := copy(start[:], head)
	switch {
	case bytes.HasPrefix(head, []byte("\uFEFF")):
		return "UTF-8"
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), n == 4 && start[0] != 0 && start[1] == 0 && start[3] == 0:
		return "UTF-16LE"
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}), n == 4 && start[0] == 0 && start[1] != 0 && start[2] == 0:
		return "UTF-16BE"
	}
	return cmp.Or(chosen, "UTF-8")
}

const (
	tarMagic    = 257 // offset of "ustar" in an archive (POSIX pax interchange format)
	tarMagicEnd = tarMagic + len("ustar")
)

// foreign returns an error with the remedy for a file of another kind that begins with head.
func foreign(head []byte) error {
	const csv = "; save the table as CSV UTF-8 and import that"
	for magic, remedy := range map[string]string{
		"PK\x03\x04":       "an Excel workbook (.xlsx) or a ZIP archive" + csv + ", or unpack the archive",
		"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls)" + csv,
		"\xfd7zXZ\x00":     "compressed with xz; decompress it and import the result",
		"BZh91AY&SY":       "compressed with bzip2; decompress it and import the result",
		"\xff\xfe\x00\x00": "UTF-32; save it as UTF-8",
		"<":                "HTML or XML" + csv,
		"%PDF":             "a PDF document" + csv,
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return fmt.Errorf("the file is %s", remedy)
		}
	}
	if len(head) == tarMagicEnd && string(head[tarMagic:]) == "ustar" {
		return errors.New("the file is a tar archive; unpack it and import the file inside")
	}
	return nil
}

// Found returns what is known about the file.
func (f *File) Found() Found {
	found := f.found
	found.Members = maps.Clone(f.members)
	return found
}

// Close releases the memory of the decompression.
func (f *File) Close() {
	if f.content != nil {
		_ = f.content.Close() // returns no error
	}
}

// checkDecoded returns an error for a plant with the character that stands for bytes without a meaning in an encoding.
func checkDecoded(p plant.NewPlant) error {
	tag, _ := p.Tag.Get()
	for _, text := range []string{p.Name, tag} {
		if strings.ContainsRune(text, utf8.RuneError) {
			return fmt.Errorf("%s has bytes without a meaning in the encoding of the file; choose another encoding",
				plant.Quote([]byte(text)))
		}
	}
	return nil
}

// Rows returns the rows of the file. It skips blank rows.
//
// If the input ends early, the last pair is an error without a row: the reader failed, or a JSON array is invalid. Rows
// does not yield a row that the failure truncated.
//
// Rows keeps one row in memory, and 64 KiB or up to three times the longest row in its buffer: about 100 MiB for the
// longest allowed row.
func (f *File) Rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var row Row
		var err error
		for err == nil {
			if err = f.rows.next(&row); err != nil {
				break
			}
			if row.Err == nil && f.found.Encoding != "UTF-8" {
				row.Err = checkDecoded(row.Plant)
			}
			if row.Err == nil {
				row.Err = checkSize(row.Plant, cmp.Or(f.options.PlantMax, plantBytesMax))
			}
			if row.Err != nil {
				row.Plant = plant.NewPlant{}
			}
			if !yield(row, nil) {
				return
			}
		}
		if !isEnd(err) {
			yield(Row{}, err)
		}
	}
}
