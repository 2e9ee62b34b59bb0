package terminal

import (
	"context"
	"errors"
	"io"
	"os"
)

// InterruptibleReader returns a reader whose Read returns when ctx ends, because a read of a pipe or a terminal cannot
// be cancelled. The read itself continues until the program ends, and its bytes are lost.
func InterruptibleReader(ctx context.Context, r io.Reader) io.Reader {
	return &interruptibleReader{ctx: ctx, r: r, buf: make([]byte, interruptibleBytes)}
}

const interruptibleBytes = 64 << 10

type interruptibleReader struct {
	ctx    context.Context
	r      io.Reader
	buf    []byte // owned by the goroutine of fill while it reads
	unread []byte // part of buf
	err    error  // to return after the unread bytes
}

// Read implements io.Reader.
func (i *interruptibleReader) Read(p []byte) (int, error) {
	if len(i.unread) == 0 && i.err == nil {
		i.fill()
	}
	if len(i.unread) == 0 {
		return 0, i.err
	}
	n := copy(p, i.unread)
	i.unread = i.unread[n:]
	return n, nil
}

func (i *interruptibleReader) fill() {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the read; done buffers the result
		n, err := i.r.Read(i.buf)
		done <- result{n, err}
	}()
	select {
	case <-i.ctx.Done():
		i.err = ErrInterrupted // Read does not use buf again
	case r := <-done:
		i.unread, i.err = i.buf[:r.n], r.err
	}
}

// OpenInput opens a file for reading. It also returns when ctx ends, because opening a FIFO waits for a writer. The
// caller closes the file.
func OpenInput(ctx context.Context, path string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result, 1)
	go func() { // ends when the file is open, or with the program; done buffers the result
		f, err := os.Open(path)
		done <- result{f, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ErrInterrupted
	case r := <-done:
		return r.f, r.err
	}
}

// InterruptibleWriter returns a writer whose Write returns when ctx ends, because a write to a full pipe cannot be
// cancelled. The write itself continues until the program ends.
func InterruptibleWriter(ctx context.Context, w io.Writer) io.Writer {
	return &interruptibleWriter{ctx: ctx, w: w}
}

type interruptibleWriter struct {
	ctx context.Context //nolint:containedctx // the writer lives as long as its command
	w   io.Writer
	buf []byte // a copy of the bytes, because the caller reuses its own; owned by the goroutine of Write while it writes
	err error  // of an interrupted write
}

// Write implements io.Writer.
func (i *interruptibleWriter) Write(p []byte) (int, error) {
	if i.err != nil {
		return 0, i.err // the goroutine still owns buf
	}
	i.buf = append(i.buf[:0], p...)
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the write; done buffers the result
		n, err := i.w.Write(i.buf)
		done <- result{n, err}
	}()
	select {
	case <-i.ctx.Done():
		i.err = ErrInterrupted
		return 0, i.err
	case r := <-done:
		return r.n, r.err
	}
}

// ErrInterrupted is the error of a command that a signal interrupted.
var ErrInterrupted = errors.New("interrupted")
