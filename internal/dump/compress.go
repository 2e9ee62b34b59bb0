package dump

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdWindowMax bounds the memory that a zstd file can claim. Level 21 of the zstd program needs as much.
const zstdWindowMax = 64 << 20

// Decompress returns a reader of the decompressed content of r if r begins like a gzip or zstd file, else of r itself.
// Its memory is bounded for content of any size. Its Read returns an error for truncated or damaged data.
//
// The caller must close the reader; that does not close r.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, windowBytes)
	magic, err := b.Peek(4)
	if err != nil && !isEnd(err) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952 section 2.3.1
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, decompressError(Gzip, err)
		}
		return decompressed{z, Gzip}, nil
	case isZstd(magic):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax))
		if err != nil {
			return nil, decompressError(Zstd, err)
		}
		return decompressed{z.IOReadCloser(), Zstd}, nil
	}
	return io.NopCloser(b), nil
}

// isZstd reports whether a file begins with a frame of RFC 8878: a zstd frame (section 3.1.1) or a skippable frame
// (section 3.1.2).
func isZstd(magic []byte) bool {
	if len(magic) < 4 {
		return false
	}
	return bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18})
}

// decompressed adds the compression to the errors of Read.
type decompressed struct {
	io.ReadCloser

	compression Compression
}

func (d decompressed) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && !isEnd(err) {
		err = decompressError(d.compression, err)
	}
	return n, err
}

// Close releases the decompressor. It returns no error: Read has reported any fault of the data.
func (d decompressed) Close() error {
	_ = d.ReadCloser.Close()
	return nil
}

func decompressError(c Compression, err error) error {
	if isEnd(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("decompress %s: the file is truncated: %w", c, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("decompress %s: %w", c, err)
}

// compressor returns a writer that compresses to w. Its Close ends the compressed data and does not close w.
func compressor(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case Gzip:
		return gzip.NewWriter(w), nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return uncompressed{w}, nil
}

type uncompressed struct{ io.Writer }

func (uncompressed) Close() error { return nil }
