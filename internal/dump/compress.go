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

// zstdWindowMax bounds what a zstd file can make its reader hold. It is what
// level 21 of zstd's own program needs.
const zstdWindowMax = 64 << 20

// Decompress returns a reader of what is in r: decompressed if r begins as a
// gzip or zstd file does, else r itself. Memory stays bounded however much
// comes out, and data that is cut off or damaged is an error of Read.
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

// isZstd knows the frames of RFC 8878: one with data, section 3.1.1, and one
// to be skipped, section 3.1.2, with which a file may begin too.
func isZstd(magic []byte) bool {
	if len(magic) < 4 {
		return false
	}
	return bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) ||
		magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18})
}

// decompressed says in its errors that they come from decompressing.
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

// Close ends the decompressing. What was wrong with the data, Read has said.
func (d decompressed) Close() error {
	_ = d.ReadCloser.Close()
	return nil
}

func decompressError(c Compression, err error) error {
	if isEnd(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("decompress %s: the file is cut off: %w", c, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("decompress %s: %w", c, err)
}

// compressor returns a writer that compresses to w. Closing it ends the
// compressed data and leaves w open.
func compressor(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case None:
		return uncompressed{w}, nil
	case Gzip:
		return gzip.NewWriter(w), nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return nil, fmt.Errorf("unknown compression %q: use gzip, zstd or none", c)
}

type uncompressed struct{ io.Writer }

func (uncompressed) Close() error { return nil }
