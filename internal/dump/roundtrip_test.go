package dump_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// texts are what is hard to keep in one format or another, so that generated
// names have them more often than chance would give.
var texts = []string{
	"", " ", "a", "é", "Rosa", "'", "''", "=", "+1", "-", "@", "\t", "\r", "\n", "\r\n", "＝", "＋", "－", "＠", "\"", ",", ";", "\\", "\\u0000",
	"\uFEFF", "\uFFFD", "\u2028", "😀", "\x01", "\x7f", "[", "]", "{", "}", ":", "]}",
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

// withoutEmptyTags returns the plants as CSV can tell them.
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

// Buffers are flushed and windows moved on the way through a larger file.
func TestRoundTripLarge(t *testing.T) {
	t.Parallel()
	plants := benchPlants(6_000)
	for i := range plants {
		if i%100 == 0 {
			plants[i].Name = strings.Repeat(plants[i].Name+"\r\n\"", i%1000)
		}
	}
	for _, format := range formats {
		for _, compression := range compressions {
			r, err := dump.Decompress(bytes.NewReader(write(t, format, compression, plants)))
			if err != nil {
				t.Fatal(err)
			}
			if got := mustRead(t, r, format); !slices.Equal(got, plants) {
				t.Errorf("%s, %s: the plants read differ from those written", format, compression)
			}
		}
	}
}

// The real files are no part of the project; without them the test is skipped.
func TestRealFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"plants.jsonl": 953, "medium_usda.csv.gz": 32_646, "large_ipni.csv.gz": 474_514} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "../../../shared/data/" + name
			file, err := os.Open(path)
			if err != nil {
				t.Skip(err)
			}
			defer file.Close()
			format, _, ok := dump.DetectPath(path)
			r, err := dump.Decompress(file)
			if err != nil || !ok {
				t.Fatal(err, ok)
			}
			plants := mustRead(t, r, format)
			if len(plants) != want {
				t.Errorf("got %d plants, want %d", len(plants), want)
			}
			if got := mustRead(t, bytes.NewReader(write(t, format, dump.None, plants)), format); !slices.Equal(got, plants) {
				t.Error("written and read back, the plants differ")
			}
		})
	}
}

// BenchmarkReadRealFile reads a real file that was decompressed before.
func BenchmarkReadRealFile(b *testing.B) {
	file, err := os.Open("../../../shared/data/large_ipni.csv.gz")
	if err != nil {
		b.Skip(err)
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
		for row, err := range dump.Read(bytes.NewReader(data), dump.CSV) {
			if err != nil || row.Err != nil {
				b.Fatal(err, row.Err)
			}
			rows++
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
