package main

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

// newLogger returns the logger of a server, and the buffer that has to be
// closed at the end, so that its last lines are written.
func newLogger(p *program, s *settings) (*slog.Logger, *logBuffer) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.logLevel.value)) // one of the allowed words
	buffer := newLogBuffer(p.stderr)
	options := &slog.HandlerOptions{Level: level}
	if s.logFormat.value == "json" {
		return slog.New(slog.NewJSONHandler(buffer, options)), buffer
	}
	return slog.New(slog.NewTextHandler(buffer, options)), buffer
}

// logBuffer gathers log lines for a moment and writes them together: under
// load, a system call for each request's line would cost as much as a tenth of
// the request. A process that is killed loses the lines of that moment.
type logBuffer struct {
	w io.Writer

	mu    sync.Mutex
	lines []byte // not yet written; guarded by mu

	some chan struct{} // holds a token when there are lines
	stop chan struct{} // closed by Close
	done chan struct{} // closed when the flusher has ended
}

const (
	logFlushAfter = 20 * time.Millisecond
	logBytesMax   = 64 << 10 // more is written at once, by whoever logs
)

func newLogBuffer(w io.Writer) *logBuffer {
	b := &logBuffer{w: w, some: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go b.flushAll() // ends when Close is called, which waits for it
	return b
}

// Write implements io.Writer for a slog handler, which calls it once a line.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line...)
	switch {
	case len(b.lines) >= logBytesMax:
		return len(line), b.flushLocked()
	case len(b.lines) == len(line): // the first
		select {
		case b.some <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// flushAll writes the first line of a quiet time at once, and those that come
// soon after it together.
func (b *logBuffer) flushAll() {
	defer close(b.done)
	for {
		select {
		case <-b.some:
		case <-b.stop:
			return
		}
		b.flush()
		select {
		case <-time.After(logFlushAfter):
		case <-b.stop:
			return
		}
	}
}

func (b *logBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.flushLocked() // there is nowhere to tell it
}

func (b *logBuffer) flushLocked() error {
	if len(b.lines) == 0 {
		return nil
	}
	_, err := b.w.Write(b.lines)
	b.lines = b.lines[:0]
	return err
}

// Close writes what is left. What is logged after it is lost.
func (b *logBuffer) Close() {
	close(b.stop)
	<-b.done
	b.flush()
}
