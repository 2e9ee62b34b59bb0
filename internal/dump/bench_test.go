package dump_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// benchPlants returns plants with rows as long as in a list of species: a name of three words, and one of a few hundred
// families as the tag.
func benchPlants(n int) []plant.NewPlant {
	plants := make([]plant.NewPlant, n)
	for i := range plants {
		name := fmt.Sprintf("Genus%05d species%05d Author", i%1000, i)
		if i%20 == 0 {
			name += " & Söhne, ined."
		}
		plants[i] = tagged(int64(i)*10+2, name, fmt.Sprintf("Family%03daceae", i*7919%400))
	}
	return plants
}

var formats = []dump.Format{dump.CSV, dump.JSONL, dump.JSON}

func BenchmarkRead(b *testing.B) {
	const rows = 10_000
	for _, format := range formats {
		b.Run(string(format), func(b *testing.B) {
			file := write(b, format, dump.None, benchPlants(rows))
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				for row, err := range rowsOf(bytes.NewReader(file), format) {
					if err != nil || row.Err != nil {
						b.Fatal(err, row.Err)
					}
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	const rows = 10_000
	plants := benchPlants(rows)
	for _, format := range formats {
		b.Run(string(format), func(b *testing.B) {
			b.SetBytes(int64(len(write(b, format, dump.None, plants))))
			b.ReportAllocs()
			for b.Loop() {
				w, err := dump.NewWriter(io.Discard, format, dump.None)
				if err != nil {
					b.Fatal(err)
				}
				for _, p := range plants {
					if err := w.Write(p); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
