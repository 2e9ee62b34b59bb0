package plant_test

import (
	"strings"
	"testing"

	"plantstore/internal/plant"
)

func BenchmarkDecode(b *testing.B) {
	for _, bench := range []struct{ name, body string }{
		{"plain", `{"id":12345678,"name":"Rosa canina L.","tag":"Rosaceae"}`},
		{"escapes", `{"id":12345678,"name":"Rosa \"canina\" \u00d7 L.","tag":"\u00e9"}`},
		{"large", `{"id":12345678,"name":"` + strings.Repeat("Rosa ", 12_000) + `"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			body := []byte(bench.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plant.Decode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	p := tagged(12345678, "Rosa canina L.", "Rosaceae")
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = p.AppendJSON(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}
