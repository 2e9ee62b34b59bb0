package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// faultyReader stands for standard error: a write may wait, and may fail after a part.
type faultyReader struct {
	got   bytes.Buffer
	write func(p []byte) (int, error) // how much of p is read; nil: all of it
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

// logLine returns line number n, which can be told from a part of it.
func logLine(n int) string { return fmt.Sprintf("<%d %s>\n", n, strings.Repeat("x", n%700)) }

// check finds that each line was written once and whole, or was dropped and reported.
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
		t.Errorf("%d lines written and %d reported as dropped, want %d together", written, dropped, logged)
	}
	if got := testutil.ToFloat64(b.dropped); got != float64(dropped) {
		t.Errorf("%v lines counted as dropped, %d reported", got, dropped)
	}
	return dropped
}

// TestLogBufferStall shows that a reader that stalls delays no line, and that each line that finds the buffer full is
// counted.
func TestLogBufferStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		r := &faultyReader{write: func(p []byte) (int, error) { <-goOn; return len(p), nil }}
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
		wg.Wait() // while the reader stalls
		b.mu.Lock()
		if len(b.lines) > logBytesMax {
			t.Errorf("%d bytes wait, want at most %d", len(b.lines), logBytesMax)
		}
		b.mu.Unlock()
		close(goOn)
		b.Close()
		if dropped := r.check(t, b, writers*each); dropped == 0 {
			t.Error("nothing was dropped")
		}
	})
}

// TestLogBufferFault shows that lines that could not be written are counted, and that a line that was written in part
// spoils no other.
func TestLogBufferFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		chance := rand.New(rand.NewPCG(1, 2))
		faulty := true
		r := &faultyReader{write: func(p []byte) (int, error) {
			if faulty && chance.IntN(2) == 0 {
				return chance.IntN(len(p)), errors.New("no space left on device")
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
				synctest.Wait() // or it is read at the same time
				faulty = false
			}
		}
		b.Close()
		if dropped := r.check(t, b, lines); dropped == 0 {
			t.Error("nothing was dropped")
		}
	})
}

// TestLogBufferClose shows that Close does not wait for a reader that stalls for good.
func TestLogBufferClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		b := newTestBuffer(&faultyReader{write: func(p []byte) (int, error) { <-end; return len(p), nil }})
		fmt.Fprint(b, logLine(1))
		b.Close() // or the bubble is deadlocked
		close(end)
		<-b.done
	})
}
