package dump_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// shortest are the parts of a body that hold a text in the fewest bytes, of every kind that a format writes longer.
var shortest = []string{"x", `\"`, `\\`, `\u0001`, `\b`, `\f`, `\n`, `\n=`, `\t=`, ";=", ",", "'", "é"}

// fullBody returns a body of so many bytes, made of the parts again and again. Its id is shorter than export writes it.
func fullBody(parts []string, size int) string {
	const head, middle, tail = `{"id":-9e18,"name":"=`, `","tag":"`, `"}`
	unit := strings.Join(parts, "")
	room := size - len(head) - len(middle) - len(tail)
	name := strings.Repeat(unit, room/len(unit))
	return head + name + middle + strings.Repeat("x", room-len(name)) + tail
}

// What the limits on a plant and on a row are built on: a file needs no more room for a plant than its body had, but for
// the id, and in CSV for apostrophes.
func TestFormsOfAPlant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom(shortest), 1, 20).Draw(t, "parts")
		body := fullBody(parts, rapid.IntRange(200, 600).Draw(t, "size"))
		p, err := plant.Decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		text := len(p.AppendJSON(nil))
		if most := len(body) + len("-9000000000000000000") - len("-9e18"); text > most {
			t.Errorf("%d bytes as JSON, want at most %d", text, most)
		}
		row := len(write(t, dump.CSV, dump.None, []plant.NewPlant{p})) - len("id,name,tag\r\n\r\n")
		if row > 2*text {
			t.Errorf("%d bytes as CSV, want at most %d", row, 2*text)
		}
		if got := p.JSONBytes(); got != text {
			t.Errorf("JSONBytes: got %d, want %d", got, text)
		}
	})
}

// A plant that no server could accept is refused, whatever the format: it could not be exported and imported again.
func TestPlantTooLarge(t *testing.T) {
	t.Parallel()
	const sixth = plant.BodyBytesMax / 6
	large := named(1, strings.Repeat("\x01", sixth+2))
	for _, format := range formats {
		var got []string
		for row, err := range dump.Read(bytes.NewReader(write(t, format, dump.None, []plant.NewPlant{large, named(2, "Bellis")})), format) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, errorText(row.Err))
			if row.Err != nil && (row.Plant != plant.NewPlant{} || len(row.Raw) < sixth) {
				t.Errorf("%s: the refused row has a plant, or only %d bytes", format, len(row.Raw))
			}
		}
		if want := []string{"the plant has 16777242 bytes as JSON, and a plant has at most 16777236", ""}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
}
