package terminal

import (
	"context"
	"errors"
	"testing"
)

// lateWriter reads the bytes of a Write only after release is closed, as a full pipe does.
type lateWriter struct {
	release chan struct{}
	wrote   chan string
}

// Write implements io.Writer.
func (w *lateWriter) Write(p []byte) (int, error) {
	<-w.release
	w.wrote <- string(p)
	return len(p), nil
}

// TestInterruptedWriteCopies tests that a write which goes on after an interrupt has bytes of its own: fmt and bufio
// reuse theirs. Later writes start nothing.
func TestInterruptedWriteCopies(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := &lateWriter{release: make(chan struct{}), wrote: make(chan string, 2)}
	to := InterruptibleWriter(ctx, late)
	p := []byte("Rosa canina")
	if n, err := to.Write(p); n != 0 || !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %d, %v, want 0 and an interrupt", n, err)
	}
	copy(p, "Urtica dioi")
	close(late.release)
	if n, err := to.Write(p); n != 0 || !errors.Is(err, ErrInterrupted) {
		t.Errorf("the second write: got %d, %v, want 0 and an interrupt", n, err)
	}
	if got := <-late.wrote; got != "Rosa canina" {
		t.Errorf("the interrupted write has %q, want Rosa canina", got)
	}
}
