package dump

import (
	"io"
	"iter"
)

// ReadWithin is Read with other limits on the bytes of a row and of a plant as JSON: a test exceeds a lower limit with
// less data.
func ReadWithin(r io.Reader, f Format, rowMax, plantMax int) iter.Seq2[Row, error] {
	return read(r, f, limits{row: rowMax, plant: plantMax})
}
