package dump_test

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// shortest are texts in the shortest form that a body can have, of each kind that a format writes in a longer form.
var shortest = []string{"x", `\"`, `\\`, `\u0001`, `\b`, `\f`, `\n`, `\n=`, `\t=`, ";=", ",", "'", "é"}

// fullBody returns a body of size bytes that repeats the parts. Its id is shorter than in an export.
func fullBody(parts []string, size int) string {
	const head, middle, tail = `{"id":-9e18,"name":"=`, `","tag":"`, `"}`
	unit := strings.Join(parts, "")
	rest := size - len(head) - len(middle) - len(tail)
	name := strings.Repeat(unit, rest/len(unit))
	return head + name + middle + strings.Repeat("x", rest-len(name)) + tail
}

// The limits on a plant and on a row rely on this: a plant is not larger in a file than in its body, except for the id
// and, in CSV, for apostrophes.
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
		row := len(write(t, dump.CSV, dump.None, []plant.NewPlant{p})) - len(csvHead+"\r\n")
		if row > 2*text {
			t.Errorf("%d bytes as CSV, want at most %d", row, 2*text)
		}
	})
}

// A plant that no server could accept is refused in every format: it could not be exported and imported again. The long
// form of the test uses the limit of Read.
func TestPlantTooLarge(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		const lower = 1 << 12
		checkPlantLimit(t, format, lower, func(r io.Reader) iter.Seq2[dump.Row, error] {
			return rowsWithin(r, format, 2*lower, lower)
		})
		if !testing.Short() {
			const fullSize = plant.BodyBytesMax + len("-9223372036854775808")
			checkPlantLimit(t, format, fullSize, func(r io.Reader) iter.Seq2[dump.Row, error] { return rowsOf(r, format) })
		}
	}
}

// checkPlantLimit reads a plant of plantMax bytes as JSON, one with a byte more, and a small one.
func checkPlantLimit(t *testing.T, f dump.Format, plantMax int, read func(io.Reader) iter.Seq2[dump.Row, error]) {
	t.Helper()
	rest := plantMax - len(`{"id":1,"name":""}`)
	largest := named(1, strings.Repeat("\x01", rest/6)+strings.Repeat("x", rest%6))
	plants := []plant.NewPlant{largest, named(2, largest.Name[1:]+"1234567"), named(3, "Bellis")}
	var got []string
	for row, err := range read(bytes.NewReader(write(t, f, dump.None, plants))) {
		if err != nil {
			t.Fatal(err)
		}
		want := plants[len(got)]
		if row.Err != nil {
			want = plant.NewPlant{}
		}
		if got = append(got, errorText(row.Err)); row.Plant != want || row.Err != nil && len(row.Raw) < rest/6 {
			t.Errorf("%s: row %d has another plant, or a row of only %d bytes", f, len(got), len(row.Raw))
		}
	}
	tooLarge := fmt.Sprintf("the plant has %d bytes as JSON; the maximum is %d", plantMax+1, plantMax)
	if want := []string{"", tooLarge, ""}; !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", f, got, want)
	}
}
