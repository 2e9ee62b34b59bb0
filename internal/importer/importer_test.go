package importer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// imported is the result of an import.
type imported struct {
	counts  importer.Counts
	rejects []string
	batches []int // rows that were stored or rejected after each batch
	waiting []int // rows that were sorted and not stored then
	err     error
}

// run imports a CSV file into a new store, with batches of two rows.
func run(ctx context.Context, t *testing.T, file string, change func(*importer.Config)) (got imported) {
	t.Helper()
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "plants.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	c := importer.Config{
		Source:  func(context.Context) io.ReadCloser { return io.NopCloser(strings.NewReader(file)) },
		Options: dump.Options{Format: dump.CSV}, Found: func(dump.Found) {},
		OnConflict: importer.Report,
		BatchRows:  2, BatchBytes: 1 << 20,
		Insert: func(batch []store.Create) ([]store.Outcome, error) { return engine.Insert(t.Context(), batch) },
		Rejected: func(r importer.Reject) error {
			got.rejects = append(got.rejects, fmt.Sprintf("%d %q %v %t", r.Line, r.Raw, r.Reason, r.Conflict))
			return nil
		},
		KeepRaw: true,
		Progress: func(p importer.Progress) {
			got.batches = append(got.batches, int(p.Rows()))
			got.waiting = append(got.waiting, int(p.Waiting))
		},
	}
	if change != nil {
		change(&c)
	}
	result, err := importer.Run(ctx, c)
	got.counts, got.err = result.Counts, err
	return got
}

const file = "id,name\n1,A\n2,B\n1,A\n1,C\nx,D\n3,E\n"

func TestRun(t *testing.T) {
	t.Parallel()
	invalid := `6 "x,D" id must be a 64-bit integer in decimal digits; got "x" false`
	conflict := `5 "1,C" id 1: a plant with this id is stored with a different name true`
	got := run(t.Context(), t, file, nil)
	want := importer.Counts{Created: 3, Existing: 1, Conflicting: 1, Invalid: 1}
	if got.counts != want || got.err != nil {
		t.Errorf("got %+v, %v; want %+v", got.counts, got.err, want)
	}
	if diff := cmp.Diff([]string{conflict, invalid}, got.rejects); diff != "" {
		t.Errorf("rejects (-want +got):\n%s", diff)
	}
	if !slices.Equal(got.batches, []int{2, 4, 6, 6}) {
		t.Errorf("batches: got %v", got.batches)
	}
	got = run(t.Context(), t, file, func(c *importer.Config) { c.OnConflict = importer.Fail })
	if !errors.Is(got.err, importer.ErrConflict) || got.counts.Rows() != 4 ||
		got.err.Error() != "line 5 conflicts with a stored plant; the import stopped after the batch of this row" {
		t.Errorf("fail: got %+v", got)
	}
}

// Every failure ends the import after the batches before it.
func TestRunFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(failure)
	for name, row := range map[string]struct {
		ctx    context.Context
		change func(*importer.Config)
		want   string
		rows   int64
	}{
		"context": {canceled, nil, "failure", 0},
		"insert": {t.Context(), func(c *importer.Config) {
			c.Insert = func([]store.Create) ([]store.Outcome, error) { return nil, failure }
		}, "store 2 rows of lines 2 to 3: failure", 0},
		"rejected": {t.Context(), func(c *importer.Config) {
			c.Rejected = func(importer.Reject) error { return failure }
		}, "failure; the import stopped after the batch of this row", 4},
		"source": {t.Context(), func(c *importer.Config) {
			c.Source = func(context.Context) io.ReadCloser {
				return io.NopCloser(io.MultiReader(strings.NewReader(file), &failing{failure}))
			}
		}, "could not read the rest of the input: read line 8: failure", 6},
		"compression": {t.Context(), func(c *importer.Config) {
			c.Source = func(context.Context) io.ReadCloser { return io.NopCloser(bytes.NewReader([]byte{0x1f, 0x8b})) }
		}, "decompress gzip: the file is truncated: unexpected EOF", 0},
		"large row": {t.Context(), func(c *importer.Config) { c.Options.RowMax, c.Options.PlantMax = 2, 1<<20 }, "", -1},
	} {
		got := run(row.ctx, t, file, row.change)
		switch {
		case row.rows < 0:
			if got.err == nil && got.counts.Invalid == 0 {
				t.Errorf("%s: got %+v", name, got)
			}
		case got.err == nil || got.err.Error() != row.want || got.counts.Rows() != row.rows:
			t.Errorf("%s: got %+v, want %s", name, got, row.want)
		}
	}
}

// The end of the context has no effect on an import during its last batch with rows.
func TestRunCanceledAtItsEnd(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rows, batch, want int // the context ends during the batch
		err               error
	}{
		"last batch":            {3, 2, 3, nil},
		"last batch, full":      {4, 2, 4, nil}, // an empty one follows
		"last batch but one":    {5, 2, 4, context.Canceled},
		"a batch waits":         {4, 1, 2, context.Canceled},
		"the last batch waits":  {3, 1, 2, context.Canceled},
		"only an empty one":     {0, 1, 0, nil},
		"the first is the last": {1, 1, 1, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			batches := 0
			counts, err := importer.Run(ctx, importer.Config{
				Source: func(context.Context) io.ReadCloser {
					file := "id,name\n"
					for id := range row.rows {
						file += fmt.Sprintf("%d,A\n", id)
					}
					return io.NopCloser(strings.NewReader(file))
				},
				Options: dump.Options{Format: dump.CSV}, Found: func(dump.Found) {},
				OnConflict: importer.Fail, BatchRows: 2, BatchBytes: 1 << 20,
				Insert: func(batch []store.Create) ([]store.Outcome, error) {
					synctest.Wait() // the reader has sent its last batch, or waits
					if batches++; batches == row.batch {
						cancel()
					}
					return make([]store.Outcome, len(batch)), nil
				},
				Rejected: func(importer.Reject) error { return nil }, Progress: func(importer.Progress) {},
			})
			if !errors.Is(err, row.err) || counts.Created != int64(row.want) {
				t.Errorf("%s: got %+v, %v; want %d rows, %v", name, counts, err, row.want, row.err)
			}
		})
	}
}

// The progress after a batch includes the time that the batch took, even if all of its rows are rejected.
func TestRunReportsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		counts, err := importer.Run(t.Context(), importer.Config{
			Source: func(context.Context) io.ReadCloser {
				return io.NopCloser(strings.NewReader("id,name\n1,A\nx,A\nx,A\n2,A\n"))
			},
			Options: dump.Options{Format: dump.CSV}, Found: func(dump.Found) {},
			OnConflict: importer.Report, BatchRows: 1, BatchBytes: 1 << 20,
			Insert: func(batch []store.Create) ([]store.Outcome, error) {
				<-time.After(time.Second)
				return make([]store.Outcome, len(batch)), nil
			},
			Rejected: func(importer.Reject) error {
				<-time.After(2 * time.Second)
				return nil
			},
			Progress: func(p importer.Progress) { took = append(took, p.Took) },
		})
		const s = time.Second
		if want := []time.Duration{s, 2 * s, 2 * s, s, 0}; err != nil || counts.Rows() != 4 || !slices.Equal(took, want) {
			t.Errorf("got %v, %+v, %v; want %v", took, counts, err, want)
		}
	})
}

// The content of a compressed file is bounded by the size of the file, above 16 MiB.
func TestRunBoundsContent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		bytes int // size of a row that is too long
		ratio int64
		want  error
	}{
		{15 << 20, 1, nil}, {18 << 20, 1, dump.ErrRatio}, {18 << 20, 1000, nil}, {18 << 20, 0, nil},
	} {
		var file bytes.Buffer
		z := gzip.NewWriter(&file)
		_, err := io.WriteString(z, "id,name\n1,A\n"+strings.Repeat("x", row.bytes)+"\n")
		if err := errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		got := run(t.Context(), t, "", func(c *importer.Config) {
			c.Source = func(context.Context) io.ReadCloser { return io.NopCloser(&file) }
			c.Options.RatioMax, c.Options.RowMax, c.Options.PlantMax = row.ratio, 1<<20, 1<<20
		})
		if !errors.Is(got.err, row.want) || got.counts.Created != 1 {
			t.Errorf("%+v: got %+v, %v", row, got.counts, got.err)
		}
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestParseReaction(t *testing.T) {
	t.Parallel()
	for _, name := range importer.Reactions() {
		if got, err := importer.ParseReaction(name); string(got) != name || err != nil {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	if _, err := importer.ParseReaction("x"); err == nil || err.Error() != `unknown reaction "x"; use fail, skip, report` {
		t.Errorf("got %v", err)
	}
}
