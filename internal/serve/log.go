package serve

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/config"
)

// Log is the log of a server. Its creator closes it.
type Log struct {
	*slog.Logger
	*logBuffer

	level *slog.LevelVar
}

// OpenLog returns a log that writes to w in the form of the settings.
func OpenLog(w io.Writer, s *config.Settings) *Log {
	l := &Log{level: &slog.LevelVar{}}
	l.level.Set(s.LowestLevel())
	handler := func(w io.Writer, lowest slog.Leveler) slog.Handler {
		options := &slog.HandlerOptions{Level: lowest}
		if s.LogFormat == "json" {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
	var notice bytes.Buffer
	noticeLog := slog.New(handler(&notice, slog.LevelWarn)) // at any --log-level, because lines of any level may be lost
	l.logBuffer = newLogBuffer(w, func(dropped int) []byte {
		notice.Reset()
		noticeLog.Warn("log lines dropped: the reader of standard error is too slow", "lines", dropped)
		return notice.Bytes()
	})
	l.Logger = slog.New(handler(l.logBuffer, l.level))
	return l
}

// logBuffer is a bounded buffer of log lines. One goroutine writes them, so that a blocked reader of the log delays no
// request. While the buffer is full, lines are dropped and counted. The goroutine writes the lines of logFlushAfter
// together, because under load one system call per line costs a tenth of a request. A killed process loses these lines.
type logBuffer struct {
	w       io.Writer                // owned by the goroutine
	notice  func(dropped int) []byte // returns the line that reports dropped lines; owned by the goroutine
	spare   []byte                   // memory of the previous write, for reuse; owned by the goroutine
	cut     bool                     // the previous write ended within a line; owned by the goroutine
	dropped atomic.Int64             // lines

	mu         sync.Mutex
	lines      []byte // whole lines to write; guarded by mu
	unreported int    // lines dropped since the last written notice; guarded by mu

	nonempty chan struct{} // has a value when a line was added to an empty buffer
	flushNow chan struct{} // has a value when the buffer reached logFlushBytes
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed when the goroutine has ended
}

const (
	logBytesMax   = 2 << 20 // in the buffer; a write in progress may have as many
	logFlushBytes = 64 << 10
	logFlushAfter = 20 * time.Millisecond
	logCloseMax   = time.Second // drainTimeMax leaves 2 s of the 10 s of a stop
)

func newLogBuffer(w io.Writer, notice func(dropped int) []byte) *logBuffer {
	b := &logBuffer{
		w: w, notice: notice,
		nonempty: make(chan struct{}, 1), flushNow: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go b.writeAll() // ends when Close is called; Close waits for it
	return b
}

// Write implements io.Writer for a slog handler, which calls it once per line. It never waits for the reader and
// returns no error.
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
		signalOne(b.nonempty)
	}
	if before < logFlushBytes && len(b.lines) >= logFlushBytes {
		signalOne(b.flushNow)
	}
	return len(line), nil
}

// measure registers the metric of the log.
func (b *logBuffer) measure(to prometheus.Registerer) {
	promauto.With(to).NewCounterFunc(prometheus.CounterOpts{
		Name: "plantstore_log_lines_dropped_total",
		Help: "Log lines dropped because the reader of standard error was too slow or a write failed.",
	}, func() float64 { return float64(b.dropped.Load()) })
}

func (b *logBuffer) dropLocked(lines int) {
	b.unreported += lines
	b.dropped.Add(int64(lines))
}

// signalOne sends a value unless the channel already has one.
func signalOne(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// writeAll writes the first line into an empty buffer at once, and the lines of the next logFlushAfter together.
func (b *logBuffer) writeAll() {
	defer close(b.done)
	for {
		select {
		case <-b.nonempty:
		case <-b.stop:
			b.flush()
			return
		}
		b.flush()
		select {
		case <-time.After(logFlushAfter):
		case <-b.flushNow:
		case <-b.stop:
		}
	}
}

// flush writes the buffered lines, and then a notice of dropped lines.
func (b *logBuffer) flush() {
	b.mu.Lock()
	lines, dropped := b.lines, b.unreported
	b.lines, b.unreported = b.spare[:0], 0
	b.mu.Unlock()

	if dropped > 0 {
		lines = append(lines, b.notice(dropped)...)
	}
	rest := b.write(lines)
	b.spare = lines[:0]
	if len(rest) == 0 {
		return
	}
	lost := bytes.Count(rest, lineEnd)
	if dropped > 0 {
		lost-- // the notice is not a lost line; the next flush writes another
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(lost)
	b.unreported += dropped
}

var lineEnd = []byte("\n")

// write writes lines and returns the unwritten rest. The next write starts on a new line.
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

// Close writes the buffered lines. It waits for at most logCloseMax: a write to a blocked pipe cannot be cancelled, and
// its goroutine ends with the process.
func (b *logBuffer) Close() {
	close(b.stop)
	select {
	case <-b.done:
	case <-time.After(logCloseMax):
	}
}
