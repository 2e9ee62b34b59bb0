package main

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/server"
)

// logLevels are the words of --log-level, the most verbose first.
var logLevels = []struct {
	word  string
	level slog.Level
}{
	{"debug", slog.LevelDebug},
	{"access", server.LevelAccess},
	{"info", slog.LevelInfo},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
}

func logLevelWords() (words []string) {
	for _, l := range logLevels {
		words = append(words, l.word)
	}
	return words
}

// newLogger returns the logger of a server. It writes through p.logs, which run
// closes.
func newLogger(p *program, s *settings) *slog.Logger {
	var least slog.Level
	for _, l := range logLevels {
		if l.word == s.logLevel.value {
			least = l.level
		}
	}
	handler := func(w io.Writer, least slog.Level) slog.Handler {
		options := &slog.HandlerOptions{Level: least}
		if s.logFormat.value == "json" {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
	var notice bytes.Buffer
	noticeLog := slog.New(handler(&notice, slog.LevelWarn)) // at any --log-level: lines of any level may be lost
	p.logs = newLogBuffer(p.stderr, func(dropped int) []byte {
		notice.Reset()
		noticeLog.Warn("log lines dropped: standard error was not read fast enough", "lines", dropped)
		return notice.Bytes()
	})
	return slog.New(handler(p.logs, least))
}

// logBuffer is a bounded buffer of log lines. One goroutine writes them, so that
// a reader that stalls delays no request: while it stalls, lines that find the
// buffer full are dropped and counted. The lines of a moment are written
// together, because under load a system call a line costs a tenth of a request.
// A process that is killed loses the lines of that moment.
type logBuffer struct {
	w       io.Writer                // of the goroutine
	notice  func(dropped int) []byte // returns the line that reports dropped lines; of the goroutine
	spare   []byte                   // the memory of the lines that were written last; of the goroutine
	cut     bool                     // the last write ended within a line; of the goroutine
	dropped prometheus.Counter

	mu         sync.Mutex
	lines      []byte // whole lines that wait to be written; guarded by mu
	unreported int    // lines dropped since the last notice that was written; guarded by mu

	some chan struct{} // holds a token when a line came into an empty buffer
	many chan struct{} // holds a token when the buffer came to logFlushBytes
	stop chan struct{} // closed by Close
	done chan struct{} // closed when the goroutine has ended
}

const (
	logBytesMax   = 2 << 20 // that wait; as many may be on their way to the reader
	logFlushBytes = 64 << 10
	logFlushAfter = 20 * time.Millisecond
	logCloseMax   = time.Second // within what drainTimeMax leaves
)

func newLogBuffer(w io.Writer, notice func(dropped int) []byte) *logBuffer {
	b := &logBuffer{
		w: w, notice: notice,
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_log_lines_dropped_total",
			Help: "Log lines that were not written, because standard error was not read fast enough or could not be written.",
		}),
		some: make(chan struct{}, 1), many: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go b.writeAll() // ends when Close is called, which waits for it
	return b
}

// Write implements io.Writer for a slog handler, which calls it once a line. It
// never waits for the reader and returns no error.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.lines)
	if before+len(line) > logBytesMax {
		b.dropLocked(1)
		return len(line), nil
	}
	b.lines = append(b.lines, line...)
	if before == 0 {
		wake(b.some)
	}
	if before < logFlushBytes && len(b.lines) >= logFlushBytes {
		wake(b.many)
	}
	return len(line), nil
}

func (b *logBuffer) dropLocked(lines int) {
	b.unreported += lines
	b.dropped.Add(float64(lines))
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it holds a token
	}
}

// writeAll writes the first line of a quiet time at once, and those that follow
// soon after it together.
func (b *logBuffer) writeAll() {
	defer close(b.done)
	for {
		select {
		case <-b.some:
		case <-b.stop:
			b.flush()
			return
		}
		b.flush()
		select {
		case <-time.After(logFlushAfter):
		case <-b.many:
		case <-b.stop:
		}
	}
}

// flush writes the lines that wait, and then how many were dropped.
func (b *logBuffer) flush() {
	b.mu.Lock()
	lines, dropped := b.lines, b.unreported
	b.lines, b.unreported = b.spare[:0], 0
	b.mu.Unlock()

	noticeBytes := 0
	if dropped > 0 {
		notice := b.notice(dropped)
		lines, noticeBytes = append(lines, notice...), len(notice)
	}
	rest := b.write(lines)
	b.spare = lines[:0]
	if len(rest) == 0 {
		return
	}
	lost := bytes.Count(rest, lineEnd)
	if noticeBytes > 0 {
		lost-- // the notice itself was lost too, and is written anew
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(lost)
	b.unreported += dropped
}

var lineEnd = []byte("\n")

// write returns what was not written. The next write begins a new line.
func (b *logBuffer) write(lines []byte) (rest []byte) {
	if len(lines) == 0 {
		return nil
	}
	if b.cut {
		if _, err := b.w.Write(lineEnd); err != nil {
			return lines
		}
	}
	n, err := b.w.Write(lines)
	b.cut = n > 0 && lines[n-1] != '\n'
	if err != nil {
		return lines[n:]
	}
	return nil
}

// Close writes the lines that wait. If standard error is not read, it waits no
// longer than logCloseMax: a write to a pipe cannot be cancelled, so its goroutine
// ends only with the process, which is about to end.
func (b *logBuffer) Close() {
	close(b.stop)
	select {
	case <-b.done:
	case <-time.After(logCloseMax):
	}
}
