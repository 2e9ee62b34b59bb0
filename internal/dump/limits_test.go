package dump_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// Lower limits than dump.Read has. A row still exceeds the window of 64 KiB.
const (
	rowBytesMax   = 1 << 17
	plantBytesMax = 2 * rowBytesMax
	tooLong       = "the row is longer than 131072 bytes; check for a missing quote or bracket"
)

// fill returns a text of size bytes: before, a filling of x, and after.
func fill(before, after string, size int) string {
	return before + strings.Repeat("x", size-len(before)-len(after)) + after
}

func TestRowLimit(t *testing.T) {
	t.Parallel()
	const plain, quoted, object = "1,", "1,\"", `{"id":1,"name":"`
	for _, tt := range []struct {
		name                      string
		format                    dump.Format
		head, before, after, rest string
		nextLine                  int64
		next                      string
	}{
		{"csv", dump.CSV, "id,name\n", plain, "", "\n2,Bellis\n", 3, "2,Bellis"},
		{"csv, CRLF", dump.CSV, "id,name\n", plain, "", "\r\n2,Bellis\r\n", 3, "2,Bellis"},
		{"csv, quotes", dump.CSV, "id,name\n", quoted, "\"", "\r\n2,Bellis\r\n", 3, "2,Bellis"},
		{"jsonl", dump.JSONL, "", object, `"}`, "\n" + `{"id":2,"name":"Bellis"}`, 2, `{"id":2,"name":"Bellis"}`},
		{"jsonl, CRLF", dump.JSONL, "", object, `"}`, "\r\n" + `{"id":2,"name":"Bellis"}`, 2, `{"id":2,"name":"Bellis"}`},
		{"json", dump.JSON, "[", object, `"}`, ",\n" + `{"id":2,"name":"Bellis"}]`, 2, `{"id":2,"name":"Bellis"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			line := int64(1 + strings.Count(tt.head, "\n"))
			next := row{tt.nextLine, tt.next, named(2, "Bellis"), ""}
			const most = rowBytesMax
			for _, size := range []int{most - 1, most, most + 1, most + 2, most + 3, 3 * most} {
				long := fill(tt.before, tt.after, size)
				rows, failure := read(strings.NewReader(tt.head+long+tt.rest), tt.format)
				want := row{Line: line, Err: tooLong}
				if size <= most {
					want = row{Line: line, Raw: long, Plant: rows[0].Plant}
				}
				if diff := cmp.Diff([]row{want, next}, rows, equalTags); diff != "" || failure != "" {
					t.Errorf("%d bytes: rows (-want +got):\n%.1000s\nfailure %q", size, diff, failure)
				}
				if size <= most && len(rows[0].Plant.Name) < most-32 {
					t.Errorf("%d bytes: the name has only %d", size, len(rows[0].Plant.Name))
				}
			}
		})
	}
}

// endless is a reader of head and a single row of size bytes. It never has the whole row in memory.
func endless(head, chunk string, size int64) io.Reader {
	return io.MultiReader(strings.NewReader(head), io.LimitReader(repeat(strings.Repeat(chunk, 1024)), size))
}

// repeat is an endless reader of the same text. Each read begins with the beginning of the text.
type repeat string

func (r repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], r)
	}
	return n, nil
}

// The test measures the heap of the whole program, so it does not run in parallel with others.
func TestBoundedMemory(t *testing.T) {
	const heapMax = 1 << 20
	const large, small = 25 << 20, 3 << 19 // small where Read tests each byte, which is slow under the race detector
	for _, tt := range []struct {
		name        string
		size        int64
		format      dump.Format
		head, chunk string
		want        []row
		failure     string
	}{
		{"csv", small, dump.CSV, "id,name\n1,", "x", []row{{Line: 2, Err: tooLong}}, ""},
		{"csv, quotes", large, dump.CSV, "id,name\n1,\"", "xy", []row{{Line: 2, Err: tooLong}}, ""},
		{"csv, commas", small, dump.CSV, "id,name\n1,\"\"", ",", []row{{Line: 2, Err: tooLong}}, ""},
		{"csv, header", small, dump.CSV, "id,name", ",", nil, "line 1: invalid header: " + tooLong},
		{"jsonl", large, dump.JSONL, `{"name":"`, "x", []row{{Line: 1, Err: tooLong}}, ""},
		{"jsonl, blank", large, dump.JSONL, "", " ", []row{{Line: 1, Err: tooLong}}, ""},
		{"json, string", small, dump.JSON, `[{"name":"`, `x\"`, nil, "line 1: " + insideElement},
		{"json, brackets", small, dump.JSON, "[", "[", nil, "line 1: " + insideElement},
		{"json, blank", small, dump.JSON, "[", " ", nil, "line 1: the array is not closed; expected ']' at the end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			rows, failure := read(endless(tt.head, tt.chunk, tt.size), tt.format)
			runtime.ReadMemStats(&after)
			if diff := cmp.Diff(tt.want, rows, equalTags); diff != "" || failure != tt.failure {
				t.Errorf("rows (-want +got):\n%s\nfailure: got %q, want %q", diff, failure, tt.failure)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > heapMax {
				t.Errorf("the read allocated %d bytes for one row of %d, want at most %d", grown, tt.size, heapMax)
			}
		})
	}
}

// Read yields the error of a reader last, and not the row that the error truncated.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for _, tt := range []struct {
		format dump.Format
		in     string
		want   []plant.NewPlant
		line   int
	}{
		{dump.CSV, "", nil, 1},
		{dump.CSV, "id,name\n1,Rosa\n2,Bel", []plant.NewPlant{named(1, "Rosa")}, 3},
		{dump.CSV, "id,name\n1,Rosa\n2,\"Bel\n", []plant.NewPlant{named(1, "Rosa")}, 3},
		{dump.CSV, "id,name\n1,Rosa\n2," + strings.Repeat("x", 2*rowBytesMax), []plant.NewPlant{named(1, "Rosa")}, 3},
		{dump.JSONL, `{"id":1,"name":"Rosa"}` + "\n" + `{"id":2,"name":"Bellis"}`, []plant.NewPlant{named(1, "Rosa")}, 2},
		{dump.JSONL, strings.Repeat("x", 2*rowBytesMax), nil, 1},
		{dump.JSON, "", nil, 1},
		{dump.JSON, `[{"id":1,"name":"Rosa"},` + "\n", []plant.NewPlant{named(1, "Rosa")}, 2},
		{dump.JSON, `[{"id":1,"name":"Rosa"},` + "\n" + `{"id":2`, []plant.NewPlant{named(1, "Rosa")}, 2},
		{dump.JSON, `[{"id":1,"name":"Rosa"}]`, []plant.NewPlant{named(1, "Rosa")}, 1},
	} {
		want := fmt.Sprintf("read line %d: the disk is gone", tt.line)
		for _, in := range []io.Reader{
			io.MultiReader(strings.NewReader(tt.in), iotest.ErrReader(broken)),
			iotest.DataErrReader(io.MultiReader(strings.NewReader(tt.in), iotest.ErrReader(broken))),
		} {
			rows, failure := read(in, tt.format)
			var got []plant.NewPlant
			for _, r := range rows {
				got = append(got, r.Plant)
			}
			if diff := cmp.Diff(tt.want, got, equalTags); diff != "" || failure != want {
				t.Errorf("%s %.40q: plants (-want +got):\n%s\nfailure: got %q, want %q",
					tt.format, tt.in, diff, failure, want)
			}
		}
	}
}

// After an error of the underlying writer, every call returns that error.
func TestWriterFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	for _, compression := range []dump.Compression{dump.None, dump.Gzip, dump.Zstd} {
		w, err := dump.NewWriter(failingWriter{broken}, dump.JSONL, compression)
		if err != nil {
			t.Fatal(err)
		}
		errWrite := w.Write(named(1, strings.Repeat("x", 1<<17)))
		if err := w.Close(); !errors.Is(err, broken) {
			t.Errorf("%q: Close: got %v (Write: %v), want %v", compression, err, errWrite, broken)
		}
	}
	r := dump.NewRejects(failingWriter{broken}, dump.JSON)
	for range 2 {
		if err := r.Write(dump.Row{Raw: bytes.Repeat([]byte("x"), 1<<17)}); !errors.Is(err, broken) {
			t.Errorf("Rejects.Write: got %v, want %v", err, broken)
		}
	}
	if err := r.Close(); !errors.Is(err, broken) {
		t.Errorf("Rejects.Close: got %v, want %v", err, broken)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
