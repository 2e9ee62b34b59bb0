package serve

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/config"
)

// faultyReader is a standard error whose writes may block, and may fail after a part.
type faultyReader struct {
	got   bytes.Buffer
	write func(p []byte) (int, error) // returns the number of read bytes of p; nil: all
}

func (r *faultyReader) Write(p []byte) (int, error) {
	n, err := len(p), error(nil)
	if r.write != nil {
		n, err = r.write(p)
	}
	r.got.Write(p[:n])
	return n, err
}

// newTestBuffer returns a buffer whose notices are lines of the form "dropped N".
func newTestBuffer(r *faultyReader) *logBuffer {
	return newLogBuffer(r, func(dropped int) []byte { return fmt.Appendf(nil, "dropped %d\n", dropped) })
}

// logLine returns line number n, whose end differs from that of a part of it.
func logLine(n int) string { return fmt.Sprintf("<%d %s>\n", n, strings.Repeat("x", n%700)) }

// check requires that each line was written once and whole, or was dropped and reported. It returns the number of
// dropped lines.
func (r *faultyReader) check(t *testing.T, b *logBuffer, logged int) (dropped int) {
	t.Helper()
	written, seen := 0, map[string]bool{}
	for text := range strings.Lines(r.got.String()) {
		var n int
		if _, err := fmt.Sscanf(text, "dropped %d", &n); err == nil {
			dropped += n
		} else if _, err := fmt.Sscanf(text, "<%d ", &n); err == nil && text == logLine(n) && !seen[text] {
			seen[text] = true
			written++
		}
	}
	if written+dropped != logged {
		t.Errorf("%d lines written and %d reported as dropped, want a sum of %d", written, dropped, logged)
	}
	if got := b.dropped.Load(); got != int64(dropped) {
		t.Errorf("%v lines counted as dropped, %d reported", got, dropped)
	}
	return dropped
}

// TestLogBufferBlocked tests that a blocked reader delays no Write, and that the buffer counts each dropped line.
func TestLogBufferBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unblock := make(chan struct{})
		r := &faultyReader{write: func(p []byte) (int, error) { <-unblock; return len(p), nil }}
		b := newTestBuffer(r)
		const writers, each = 4, 5_000
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					if n, err := fmt.Fprint(b, logLine(w*each+i)); n == 0 || err != nil {
						t.Errorf("Write = %d, %v", n, err)
					}
				}
			})
		}
		wg.Wait() // while the reader is blocked
		b.mu.Lock()
		if len(b.lines) > logBytesMax {
			t.Errorf("%d bytes are buffered, want at most %d", len(b.lines), logBytesMax)
		}
		b.mu.Unlock()
		close(unblock)
		b.Close()
		if dropped := r.check(t, b, writers*each); dropped == 0 {
			t.Error("no line was dropped")
		}
	})
}

// TestLogBufferFault tests that the buffer counts lines that it could not write, and that a partly written line damages
// no other line.
func TestLogBufferFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		faulty := true
		r := &faultyReader{write: func(p []byte) (int, error) {
			if faulty && random.IntN(2) == 0 {
				return random.IntN(len(p)), errors.New("no space left on device")
			}
			return len(p), nil
		}}
		b := newTestBuffer(r)
		const lines = 1_000
		for n := range lines {
			fmt.Fprint(b, logLine(n))
			if n%7 == 0 {
				synctest.Wait() // the goroutine writes, or waits for more lines
			}
			if n == lines-10 {
				synctest.Wait() // the goroutine does not read faulty now
				faulty = false
			}
		}
		b.Close()
		if dropped := r.check(t, b, lines); dropped == 0 {
			t.Error("no line was dropped")
		}
	})
}

// TestLogBufferClose tests that Close does not wait for a blocked reader.
func TestLogBufferClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		b := newTestBuffer(&faultyReader{write: func(p []byte) (int, error) { <-end; return len(p), nil }})
		fmt.Fprint(b, logLine(1))
		b.Close() // else the bubble is deadlocked
		close(end)
		<-b.done
	})
}

// TestLogForm tests that a line has its time with a zone, and that no text of a client begins a line of its own.
func TestLogForm(t *testing.T) {
	t.Parallel()
	const message, value = "a\nlevel=ERROR", "b\r\nmsg=\"x\" \x1b[2J\u2028"
	for format, form := range map[string]string{
		"text": `^time=(\S+) level=INFO msg="a\\nlevel=ERROR" key="b\\r\\nmsg=\\"x\\" \\x1b\[2J\\u2028"\n$`,
		"json": `^\{"time":"([^"]+)","level":"INFO","msg":"a\\nlevel=ERROR",` +
			`"key":"b\\r\\nmsg=\\"x\\" \\u001b\[2J\\u2028"\}\n$`,
	} {
		var out bytes.Buffer
		s := &config.Settings{}
		s.LogLevel, s.LogFormat = "info", format
		log := OpenLog(&out, s)
		log.Info(message, "key", value)
		log.Close()
		match := regexp.MustCompile(form).FindStringSubmatch(out.String())
		if match == nil {
			t.Errorf("%s: got %q, want %s", format, &out, form)
			continue
		}
		if _, err := time.Parse(time.RFC3339Nano, match[1]); err != nil { // which requires a zone
			t.Errorf("%s: %v", format, err)
		}
	}
}
