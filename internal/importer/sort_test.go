package importer_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/store"
)

// sorts makes an import sort, with so much memory. ids receives the ids in the order in which they are stored.
func sorts(t *testing.T, memory int, ids *[]int64) func(*importer.Config) {
	dir := t.TempDir()
	t.Cleanup(func() {
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%d files remain, %v", len(files), err)
		}
	})
	return func(c *importer.Config) {
		c.Sort = &importer.Sorting{Dir: dir, Memory: memory}
		insert := c.Insert
		c.Insert = func(batch []store.Create) ([]store.Outcome, error) {
			for _, create := range batch {
				*ids = append(*ids, create.Plant.ID)
			}
			return insert(batch)
		}
	}
}

// A run of rows whose ids ascend is stored at once. The rows after it are sorted, and rows with the same id keep their
// order. Within a batch, rejects have the order of the file; raw rows are as in the file.
func TestSort(t *testing.T) {
	t.Parallel()
	const file = "id,name,tag\n" + // a batch has two rows
		"10,J,\n20,T,tree\n7,G,\nx,X,\n5,E,\n9,I,\"a\nb\"\n5,F,\n7,G,\n30,Z,\n20,T,\n1,A,\n"
	rejects := []string{
		`5 "x,X," id must be a 64-bit integer in decimal digits; got "x" false`,
		`9 "5,F," id 5: a plant with this id is stored with a different name true`,
		`12 "20,T," id 20: a plant with this id is stored with a tag true`,
	}
	for _, memory := range []int{0, 100, 1 << 20} {
		var ids []int64
		got := run(t.Context(), t, file, sorts(t, memory, &ids))
		counts := importer.Counts{Created: 7, Existing: 1, Conflicting: 2, Invalid: 1}
		if got.counts != counts || got.err != nil {
			t.Errorf("got %+v, %v; want %+v", got.counts, got.err, counts)
		}
		if want := []int64{10, 20, 1, 5, 5, 7, 7, 9, 20, 30}; !slices.Equal(ids, want) {
			t.Errorf("stored %v, want %v", ids, want)
		}
		if diff := cmp.Diff(rejects, got.rejects); diff != "" {
			t.Errorf("rejects (-want +got):\n%s", diff)
		}
		want := fmt.Sprint([]int{2, 3, 3, 3, 3, 5, 7, 9, 11, 11}, []int{0, 2, 4, 6, 8, 6, 4, 2, 0, 0})
		if got := fmt.Sprint(got.batches, got.waiting); got != want {
			t.Errorf("progress: got %s, want %s", got, want)
		}
	}
}

// An import of shuffled rows stores each plant exactly.
func TestSortKeepsPlants(t *testing.T) {
	t.Parallel()
	const rows = 2000
	var lines []string
	for i := range rows {
		tag := ""
		if i%3 > 0 {
			tag = fmt.Sprintf(`,"tag":%q`, strings.Repeat("t", i%3-1))
		}
		lines = append(lines, fmt.Sprintf(`{"id":%d,"name":%q%s}`, int64(i-rows/2)<<50, strings.Repeat("Ä", 1+i%200), tag))
	}
	shuffled := slices.Clone(lines)
	rand.New(rand.NewPCG(1, 2)).Shuffle(rows, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	var ids []int64
	sorted := sorts(t, 20_000, &ids)
	var plants []string
	got := run(t.Context(), t, "", func(c *importer.Config) {
		insert := c.Insert
		c.Insert = func(batch []store.Create) ([]store.Outcome, error) {
			for _, create := range batch {
				plants = append(plants, string(create.Plant.AppendJSON(nil)))
			}
			return insert(batch)
		}
		sorted(c)
		c.Options.Format, c.BatchRows = dump.JSONL, 100
		c.Source = func(context.Context) io.ReadCloser {
			return io.NopCloser(strings.NewReader(strings.Join(shuffled, "\n")))
		}
	})
	if want := (importer.Counts{Created: rows}); got.counts != want || got.err != nil {
		t.Fatalf("got %+v, %v", got.counts, got.err)
	}
	slices.Sort(lines)
	slices.Sort(plants)
	if diff := cmp.Diff(lines, plants); diff != "" {
		t.Errorf("plants (-want +got):\n%s", diff)
	}
}

// A failure to sort ends the import: the rows that wait are not stored.
func TestSortFails(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent")
	got := run(t.Context(), t, "id,name\n9,A\n8,B\n7,C\n6,D\n", func(c *importer.Config) {
		c.Sort = &importer.Sorting{Dir: absent}
	})
	prefix := "could not sort the rows by id, and 1 rows were not stored: write a sorted run: open " + absent
	if got.err == nil || !strings.HasPrefix(got.err.Error(), prefix) || got.counts != (importer.Counts{Created: 1}) {
		t.Errorf("got %+v, want %s", got, prefix)
	}
}

// A failure to read ends the import after the rows that have been read.
func TestSortReadFails(t *testing.T) {
	t.Parallel()
	var ids []int64
	sorted := sorts(t, 0, &ids)
	got := run(t.Context(), t, "", func(c *importer.Config) {
		sorted(c)
		c.Source = func(context.Context) io.ReadCloser {
			return io.NopCloser(io.MultiReader(strings.NewReader("id,name\n9,A\n8,B\n7,C\n6,D\n"), &failing{io.ErrClosedPipe}))
		}
	})
	const want = "could not read the rest of the input: read line 6: io: read/write on closed pipe"
	counts := importer.Counts{Created: 4}
	if got.err == nil || got.err.Error() != want || got.counts != counts || !slices.IsSorted(ids[1:]) {
		t.Errorf("got %+v %v, want %s", got, ids, want)
	}
}

// The end of the context ends an import that still reads. The rows that wait are not stored.
func TestSortStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var ids []int64
	sorted := sorts(t, 0, &ids)
	got := run(ctx, t, "", func(c *importer.Config) {
		sorted(c)
		c.Source = func(context.Context) io.ReadCloser {
			return io.NopCloser(io.MultiReader(strings.NewReader("id,name\n9,A\n8,B\n7,C\n6,D\n"), &cancelling{cancel}))
		}
	})
	if got.err != context.Canceled || got.counts.Rows() > 1 { //nolint:errorlint // Run returns the cause
		t.Errorf("got %+v", got)
	}
}

// cancelling is a reader that cancels a context.
type cancelling struct{ cancel func() }

func (c *cancelling) Read([]byte) (int, error) {
	c.cancel()
	return 0, io.EOF
}
