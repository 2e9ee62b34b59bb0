package dump_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// texts are difficult in one format or another. Generated names have them more often than by chance.
var texts = []string{
	"", " ", "a", "é", "Rosa", "'", "''", "=", "+1", "-", "@", "\t", "\r", "\n", "\r\n", "＝", "＋", "－", "＠",
	"\"", ",", ";", "\\", "\\u0000", "\uFEFF", "\uFFFD", "\u2028", "😀", "\x01", "\x7f", "[", "]", "{", "}", ":", "]}",
}

func anyText() *rapid.Generator[string] {
	part := rapid.OneOf(rapid.SampledFrom(texts), rapid.Map(rapid.String(), func(s string) string {
		return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	}))
	return rapid.Map(rapid.SliceOfN(part, 0, 5), func(parts []string) string { return strings.Join(parts, "") })
}

func anyPlant() *rapid.Generator[plant.NewPlant] {
	return rapid.Custom(func(t *rapid.T) plant.NewPlant {
		p := named(rapid.Int64().Draw(t, "id"), anyText().Draw(t, "name"))
		if rapid.Bool().Draw(t, "has a tag") {
			p.Tag = plant.Tagged(anyText().Draw(t, "tag"))
		}
		return p
	})
}

// withoutEmptyTags returns the plants as CSV keeps them.
func withoutEmptyTags(plants []plant.NewPlant) []plant.NewPlant {
	plants = slices.Clone(plants)
	for i, p := range plants {
		if text, ok := p.Tag.Get(); ok && text == "" {
			plants[i].Tag = plant.Tag{}
		}
	}
	return plants
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		for _, compression := range compressions {
			t.Run(string(format)+string(compression), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) {
					plants := rapid.SliceOf(anyPlant()).Draw(t, "plants")
					want := plants
					if format == dump.CSV {
						want = withoutEmptyTags(plants)
					}
					r, err := dump.Decompress(bytes.NewReader(write(t, format, compression, plants)))
					if err != nil {
						t.Fatal(err)
					}
					if got := mustRead(t, r, format); !slices.Equal(got, want) {
						t.Fatalf("got %v, want %v", got, want)
					}
				})
			})
		}
	}
}

// A file larger than the buffers of the Writer and of Read.
func TestRoundTripLarge(t *testing.T) {
	t.Parallel()
	plants := benchPlants(1_000)
	for i := range plants {
		if i%100 == 0 {
			plants[i].Name = strings.Repeat(plants[i].Name+"\r\n\"", i)
		}
	}
	for _, format := range formats {
		for _, compression := range compressions {
			r, err := dump.Decompress(bytes.NewReader(write(t, format, compression, plants)))
			if err != nil {
				t.Fatal(err)
			}
			if got := mustRead(t, r, format); !slices.Equal(got, plants) {
				t.Errorf("%s, %s: the plants differ after a write and a read", format, compression)
			}
		}
	}
}

// dataVariable is the environment variable that names a directory with large public files for the optional tests.
const dataVariable = "PLANTSTORE_TEST_DATA"

// testdata/real contains excerpts of public data in many scripts; NOTICE.txt there lists sources and licences.
func TestRealData(t *testing.T) {
	t.Parallel()
	checkRealFile(t, "testdata/real/ipni.csv", 215)
	checkRealFile(t, "testdata/real/cldr.jsonl", 61)
}

// TestLargeRealData is optional: the large files are not part of the repository.
func TestLargeRealData(t *testing.T) {
	dir := os.Getenv(dataVariable)
	if dir == "" {
		t.Skipf("optional: %s names no directory with the large files", dataVariable)
	}
	files := map[string]int{"plants.jsonl": 953, "medium_usda.csv.gz": 32_646, "large_ipni.csv.gz": 474_514}
	for name, plants := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRealFile(t, filepath.Join(dir, name), plants)
		})
	}
}

// checkRealFile reads a file with want plants, and writes and reads them in each format.
func checkRealFile(t *testing.T, path string, want int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	format, _, ok := dump.DetectPath(path)
	r, err := dump.Decompress(file)
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	plants := mustRead(t, r, format)
	if len(plants) != want {
		t.Errorf("%s: got %d plants, want %d", path, len(plants), want)
	}
	for _, other := range formats {
		if got := mustRead(t, bytes.NewReader(write(t, other, dump.None, plants)), other); !slices.Equal(got, plants) {
			t.Errorf("%s: the plants differ after a write and a read as %s", path, other)
		}
	}
}

// BenchmarkReadRealData reads a public list of species. It is optional, like TestLargeRealData.
func BenchmarkReadRealData(b *testing.B) {
	dir := os.Getenv(dataVariable)
	if dir == "" {
		b.Skipf("optional: %s names no directory with the large files", dataVariable)
	}
	file, err := os.Open(filepath.Join(dir, "large_ipni.csv.gz"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	rows := 0
	for b.Loop() {
		for row, err := range rowsOf(bytes.NewReader(data), dump.CSV) {
			if err != nil || row.Err != nil {
				b.Fatal(err, row.Err)
			}
			rows++
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
