package dump

import (
	"io"
	"iter"
)

// ReadRows is Read with a limit on the length of a row, so that a test can go past it in less memory.
func ReadRows(r io.Reader, f Format, rowMax int) iter.Seq2[Row, error] { return read(r, f, rowMax) }
