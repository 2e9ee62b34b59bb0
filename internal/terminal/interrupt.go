package terminal

import (
	"context"
	"errors"
	"io"
	"os"
)

// wait returns the result of do. When ctx ends first, it returns ErrInterrupted, and do continues until the program
// ends: nothing can cancel a read, a write or an open that waits for the other end of a pipe.
func wait[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() { // ends with do; done buffers the result
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ErrInterrupted
	case r := <-done:
		return r.value, r.err
	}
}

// OpenInput opens a file for reading. It also returns when ctx ends. The caller closes the file.
func OpenInput(ctx context.Context, path string) (*os.File, error) {
	return wait(ctx, func() (*os.File, error) { return os.Open(path) })
}

// InterruptibleReader returns a reader whose Read also returns when ctx ends. The bytes of a read that continues are
// lost.
func InterruptibleReader(ctx context.Context, r io.Reader) io.Reader {
	return &interruptibleReader{ctx: ctx, r: r, buf: make([]byte, interruptibleBytes)}
}

const interruptibleBytes = 64 << 10

type interruptibleReader struct {
	ctx    context.Context
	r      io.Reader
	buf    []byte // owned by the goroutine of wait while it reads
	unread []byte // part of buf
	err    error  // to return after the unread bytes
}

// Read implements io.Reader.
func (i *interruptibleReader) Read(p []byte) (int, error) {
	if len(i.unread) == 0 && i.err == nil { // after an interruption, Read does not use buf again
		var n int
		n, i.err = wait(i.ctx, func() (int, error) { return i.r.Read(i.buf) })
		i.unread = i.buf[:n]
	}
	if len(i.unread) == 0 {
		return 0, i.err
	}
	n := copy(p, i.unread)
	i.unread = i.unread[n:]
	return n, nil
}

// InterruptibleWriter returns a writer whose Write also returns when ctx ends.
func InterruptibleWriter(ctx context.Context, w io.Writer) io.Writer {
	return &interruptibleWriter{ctx: ctx, w: w}
}

type interruptibleWriter struct {
	ctx context.Context //nolint:containedctx // the writer lives as long as its command
	w   io.Writer
	buf []byte // a copy of the bytes, because the caller reuses its own; owned by the goroutine of wait while it writes
	err error  // from the last write
}

// Write implements io.Writer.
func (i *interruptibleWriter) Write(p []byte) (int, error) {
	if i.err != nil {
		return 0, i.err // after an interruption, the goroutine still owns buf
	}
	i.buf = append(i.buf[:0], p...)
	var n int
	n, i.err = wait(i.ctx, func() (int, error) { return i.w.Write(i.buf) })
	return n, i.err
}

// ErrInterrupted is the error of a command that a signal interrupted.
var ErrInterrupted = errors.New("interrupted")
