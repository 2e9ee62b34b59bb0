package dump

import (
	"context"
	"io"
)

// Decompress is decompress without limits.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	c, _, err := decompress(context.Background(), r, 0)
	return c, err
}
