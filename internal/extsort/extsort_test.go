package extsort_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/internal/extsort"
)

// sorted returns the records in the order of a sorter with so much memory.
func sorted(t *testing.T, memory int, records []extsort.Record) (got []extsort.Record) {
	t.Helper()
	dir := t.TempDir()
	s := extsort.New(dir, memory)
	for _, r := range records {
		if err := s.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	for r, err := range s.Sorted() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, extsort.Record{Key: r.Key, Data: slices.Clone(r.Data)})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%d files remain, %v", len(files), err)
	}
	return got
}

// FuzzSorter compares a sorter with a stable sort in memory. Each record of the input has one byte as its key, so many
// keys are equal, and a byte for its length.
func FuzzSorter(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog"), uint16(0))
	f.Add([]byte("the quick brown fox jumps over the lazy dog"), uint16(100))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), uint16(30))
	f.Add([]byte{}, uint16(1))
	f.Fuzz(func(t *testing.T, input []byte, memory uint16) {
		var records []extsort.Record
		for i := 0; i+1 < len(input); i += 2 {
			data := binary.BigEndian.AppendUint32(nil, uint32(i)) // distinct, so that the order of equal keys is visible
			data = append(data, strings.Repeat("x", int(input[i+1]))...)
			records = append(records, extsort.Record{Key: int64(int8(input[i])) << 56, Data: data})
		}
		want := slices.Clone(records)
		slices.SortStableFunc(want, func(a, b extsort.Record) int { return cmp.Compare(a.Key, b.Key) })
		if diff := gocmp.Diff(want, sorted(t, int(memory), records)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Empty records, and more runs than the merge has buffers of the usual size for.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	var records, want []extsort.Record
	for i := range int64(1000) {
		records = append(records, extsort.Record{Key: 999 - i})
		want = append(want, extsort.Record{Key: i})
	}
	got := sorted(t, 0, records)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A sorter returns an error for a directory that it cannot write to, and can be closed then.
func TestNoDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "absent")
	s := extsort.New(dir, 0)
	if err := s.Add(extsort.Record{}); err != nil {
		t.Fatal(err) // fits in memory
	}
	err := s.Add(extsort.Record{})
	if err == nil || !strings.HasPrefix(err.Error(), "write a sorted run: open "+dir) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A caller may stop in the middle, and may close without Sorted while a run is written.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, stop := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			t.Parallel()
			s := extsort.New(t.TempDir(), 0)
			for i := range int64(4) {
				if err := s.Add(extsort.Record{Key: -i}); err != nil {
					t.Fatal(err)
				}
			}
			n := 0
			if stop > 0 {
				for _, err := range s.Sorted() {
					if n++; err != nil || n == stop {
						break
					}
				}
			}
			if err := s.Close(); n != stop || err != nil {
				t.Errorf("got %d records, %v", n, err)
			}
		})
	}
}

func BenchmarkSorter(b *testing.B) {
	const records = 1 << 20
	data := []byte(strings.Repeat("x", 40))
	for b.Loop() {
		s := extsort.New(b.TempDir(), 16<<20)
		for i := range uint64(records) {
			if err := s.Add(extsort.Record{Key: int64(i * 0x9e3779b97f4a7c15), Data: data}); err != nil {
				b.Fatal(err)
			}
		}
		for _, err := range s.Sorted() {
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
