package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"
)

// row is a plant that a test reads without the code of the program.
type row struct {
	id     int64
	name   string
	tag    string
	tagged bool
}

func byID(a, b row) int { return cmp.Compare(a.id, b.id) }

// readPlants reads a file of plants and sorts them by id. The file name has the format and the compression.
func readPlants(path string) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = bufio.NewReaderSize(f, 1<<20)
	name := path
	switch {
	case strings.HasSuffix(path, ".gz"):
		name = strings.TrimSuffix(path, ".gz")
		in, err = gzip.NewReader(in)
	case strings.HasSuffix(path, ".zst"):
		name = strings.TrimSuffix(path, ".zst")
		in, err = zstd.NewReader(in)
	}
	if err != nil {
		return nil, err
	}
	read := readLineRows
	switch name[strings.LastIndex(name, ".")+1:] {
	case "csv":
		read = readCSVRows
	case "json":
		read = readArrayRows
	}
	rows, err := read(in)
	slices.SortFunc(rows, byID)
	return rows, err
}

// guard matches a cell with the apostrophe that keeps a spreadsheet from evaluating it. The real files have no such
// cells.
var guard = regexp.MustCompile("^'+[=+\\-@\t\r\n＝＋－＠]")

func readCSVRows(in io.Reader) ([]row, error) {
	c := csv.NewReader(in)
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return nil, err
	}
	if got := strings.TrimPrefix(strings.Join(header, ","), "\uFEFF"); got != "id,name,tag" {
		return nil, fmt.Errorf("the header is %s", got)
	}
	var rows []row
	for {
		cells, err := c.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		id, err := strconv.ParseInt(cells[0], 10, 64)
		if err != nil {
			return nil, err
		}
		for i, cell := range cells {
			if strings.HasPrefix(cell, "'") && guard.MatchString(cell) {
				cells[i] = cell[1:]
			}
		}
		rows = append(rows, row{id: id, name: strings.Clone(cells[1]), tag: strings.Clone(cells[2]), tagged: cells[2] != ""})
	}
}

// jsonRow is a plant in the form of encoding/json.
type jsonRow struct {
	ID   int64   `json:"id"`
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

func (j jsonRow) row() row {
	r := row{id: j.ID, name: j.Name, tagged: j.Tag != nil}
	if j.Tag != nil {
		r.tag = *j.Tag
	}
	return r
}

func readLineRows(in io.Reader) ([]row, error) {
	var rows []row
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<21)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var j jsonRow
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return nil, fmt.Errorf("%w: %s", err, lines.Bytes())
		}
		rows = append(rows, j.row())
	}
	return rows, lines.Err()
}

func readArrayRows(in io.Reader) ([]row, error) {
	var array []jsonRow
	if err := json.NewDecoder(in).Decode(&array); err != nil {
		return nil, err
	}
	var rows []row
	for _, j := range array {
		rows = append(rows, j.row())
	}
	return rows, nil
}

// difference returns an error that names the first difference, or nil.
func difference(got, want []row) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("plant %d by id: got %+v, want %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("got %d plants, want %d", len(got), len(want))
	}
	return nil
}

func cmdSame(ts *testscript.TestScript, _ *script, args []string) error {
	want, err := readPlants(ts.MkAbs(args[0]))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	for _, name := range args[1:] {
		got, err := readPlants(ts.MkAbs(name))
		if err == nil {
			err = difference(got, want)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func cmdPack(ts *testscript.TestScript, _ *script, args []string) error {
	var packed bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&packed)
	suffix := ".gz"
	if args[0] == "zstd" {
		suffix = ".zst"
		var err error
		if w, err = zstd.NewWriter(&packed); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, ts.ReadFile(args[1])); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(ts.MkAbs(args[1])+suffix, packed.Bytes(), 0o600)
}

// json returns the plant as JSON of encoding/json.
func (r row) json() string {
	j := jsonRow{ID: r.id, Name: r.name}
	if r.tagged {
		j.Tag = &r.tag
	}
	text, err := json.Marshal(j)
	if err != nil {
		panic(err)
	}
	return string(text)
}
