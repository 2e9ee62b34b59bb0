package dump

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdWindowMax bounds the memory that a zstd file can claim. Level 21 of the zstd program needs as much.
const zstdWindowMax = 64 << 20

// ErrRatio ends the rows of a file beyond Options.RatioMax.
var ErrRatio = errors.New("the compressed file has too much content for its size; decompress it, and import the result")

// decompress returns a reader of the content of r, and its compression: r begins like a gzip or zstd file or is not
// compressed. Its memory is bounded for content of any size. Its Read returns an error for truncated or damaged data,
// at the end of the context, and for content beyond ratioMax.
//
// The caller must close the reader; that does not close r.
func decompress(ctx context.Context, r io.Reader, ratioMax int64) (io.ReadCloser, Compression, error) {
	file := &countingReader{r: r}
	b := bufio.NewReaderSize(file, windowBytes)
	magic, err := b.Peek(4)
	if err != nil && !isEnd(err) {
		return nil, None, fmt.Errorf("read line 1: %w", err)
	}
	content := &content{ctx: ctx, ReadCloser: io.NopCloser(b), file: file, ratioMax: ratioMax}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952 section 2.3.1
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, Gzip, decompressError(Gzip, err)
		}
		z.Multistream(false)
		content.ReadCloser, content.compression = &members{z, b}, Gzip
	case isZstd(magic):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax))
		if err != nil {
			return nil, Zstd, decompressError(Zstd, err)
		}
		content.ReadCloser, content.compression = z.IOReadCloser(), Zstd
	}
	return content, content.compression, nil
}

// members reads the members of a gzip file (RFC 1952 section 2.2), and skips zeros after them, with which tapes and
// some file systems fill a block.
type members struct {
	*gzip.Reader
	file *bufio.Reader
}

func (m *members) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if !isEnd(err) {
		return n, err
	}
	next, err := m.file.Peek(1)
	for ; err == nil && next[0] == 0; next, err = m.file.Peek(1) {
		_, _ = m.file.Discard(1) // it has been read
	}
	if err == nil {
		err = m.Reader.Reset(m.file)
		m.Reader.Multistream(false)
	}
	return n, err
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

// countingReader counts the bytes of a file.
type countingReader struct {
	r     io.Reader
	bytes int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	return n, err
}

// content is the content of a file. It checks the context itself, because a small compressed file that has arrived can
// have a long content.
type content struct {
	io.ReadCloser

	ctx         context.Context //nolint:containedctx // of Open
	compression Compression
	file        *countingReader
	ratioMax    int64
	bytes       int64
}

func (c *content) Read(p []byte) (int, error) {
	const free = 16 << 20 // bytes of content with any ratio
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.ReadCloser.Read(p)
	c.bytes += int64(n)
	switch {
	case c.ratioMax > 0 && c.bytes > free+c.ratioMax*c.file.bytes:
		return 0, ErrRatio
	case err != nil && !isEnd(err) && c.compression != None:
		err = decompressError(c.compression, err)
	}
	return n, err
}

// Close releases the decompressor. It returns no error: Read has reported any fault of the data.
func (c *content) Close() error {
	_ = c.ReadCloser.Close()
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
