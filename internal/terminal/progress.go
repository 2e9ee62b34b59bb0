package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// Progress shows the progress of a long command: as a bar on a terminal, as a line every minute elsewhere. Only the
// readers of count may run in another goroutine.
type Progress struct {
	w        io.Writer
	quiet    bool     // show only the texts of line
	terminal *os.File // for the bar; nil if quiet or if w is not a terminal
	drawn    bool     // the last line of the terminal is the bar
	size     int64    // bytes of the input; negative if unknown
	read     atomic.Int64
	started  time.Time // start of the command, or of its current part
	every    time.Duration
	shown    time.Time // time of the last bar or line
}

// The time between two updates of the bar, and between two lines.
const (
	barEvery   = 100 * time.Millisecond
	plainEvery = time.Minute
)

// NewProgress returns the progress, on standard error, of a command with an input of size bytes; negative if unknown.
// With --quiet it shows nothing.
func (s *Streams) NewProgress(size int64) *Progress {
	p := &Progress{
		w: s.Stderr, quiet: s.Quiet, size: size, started: time.Now(), every: plainEvery, shown: time.Now(),
	}
	if f, ok := IsTerminal(s.Stderr); ok && !s.Quiet {
		p.terminal, p.every, p.shown = f, barEvery, time.Time{}
	}
	return p
}

// Count returns a reader that counts the bytes of the input.
func (p *Progress) Count(r io.Reader) io.Reader { return &countingReader{r: r, n: &p.read} }

type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// Rows sets the number of rows that were read from an input whose bytes count counts.
func (p *Progress) Rows(n int64) { p.show(fmt.Sprintf("%d rows", n), p.read.Load(), p.size) }

// Stored sets the number of stored rows, and of all rows in the input.
func (p *Progress) Stored(n, all int64) { p.show(fmt.Sprintf("%d rows stored", n), n, all) }

// Restart starts another part of the command: its remaining time does not depend on the time until now.
func (p *Progress) Restart() { p.started = time.Now() }

// Part sets the finished part of a command that counts no rows.
func (p *Progress) Part(done, all int64) {
	if all > 0 {
		p.show("", done, all)
	}
}

// Plants sets the number of finished plants; all is negative if unknown.
func (p *Progress) Plants(done, all int64) { p.show(fmt.Sprintf("%d plants", done), done, all) }

// show shows done of all, if an update is due. It shows a percentage only if all is positive.
func (p *Progress) show(counted string, done, all int64) {
	if p.quiet || time.Since(p.shown) < p.every {
		return
	}
	p.shown = time.Now()
	parts := []string{counted}
	if counted == "" {
		parts = nil
	}
	if all > 0 {
		parts = append(parts, fmt.Sprintf("%d%%", min(done, all)*100/all))
	}
	if p.terminal == nil {
		fmt.Fprintln(p.w, strings.Join(parts, ", "))
		return
	}
	elapsed := time.Since(p.started)
	switch left := time.Duration(float64(elapsed) / float64(max(1, done)) * float64(all-done)).Round(time.Second); {
	case elapsed < time.Second: // too early for an estimate
	case all <= 0:
		parts = append(parts, elapsed.Truncate(time.Second).String())
	case done > 0 && left > 0:
		parts = append(parts, left.String()+" left")
	}
	p.draw(strings.Join(parts, ", "), done, all)
}

// draw replaces the bar, with a text after it.
func (p *Progress) draw(text string, done, all int64) {
	const (
		barColumns  = 30
		echoColumns = 4 // for the echo of Ctrl-C: if it wrapped, clear could not erase the bar
	)
	columns, _, err := term.GetSize(int(p.terminal.Fd()))
	if err != nil || columns == 0 {
		columns = 80
	}
	columns -= echoColumns
	if all > 0 && len(text)+barColumns+len("[] ") <= columns {
		full := int(float64(min(done, all)) / float64(all) * barColumns)
		text = "[" + strings.Repeat("#", full) + strings.Repeat(".", barColumns-full) + "] " + text
	}
	p.clear()
	p.drawn = true
	fmt.Fprint(p.w, "\r"+text[:max(0, min(len(text), columns))]) // ASCII
}

// clear erases the bar and the text that the user typed after it.
func (p *Progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[2K") // ECMA-48: erase the line
		p.drawn = false
	}
}

// Info writes a line about the progress of the command, above the bar.
func (p *Progress) Info(text string) {
	if !p.quiet {
		p.Line(text)
	}
}

// Line writes a warning or an error above the bar, even with --quiet.
func (p *Progress) Line(text string) {
	p.clear()
	fmt.Fprintln(p.w, Printable(text))
}

// End erases the bar.
func (p *Progress) End() { p.clear() }
