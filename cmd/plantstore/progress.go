package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// progress shows how far a long command is: as a bar on a terminal, as a line now and then elsewhere. But for count, it
// is used by one goroutine.
type progress struct {
	w        io.Writer
	quiet    bool     // shows no progress and no notes, only what line writes
	terminal *os.File // where the bar is; nil if w is no terminal, or quiet
	drawn    bool     // there is a bar, which ends the terminal's last line
	size     int64    // of the input in bytes; negative if unknown
	read     atomic.Int64
	total    int64     // rows
	begun    time.Time // when the command began
	shown    time.Time // when the bar was last drawn, or the last plain line written
}

// How often the bar is drawn, and how often there is a line where there is no bar.
const (
	barEvery   = 100 * time.Millisecond
	plainEvery = 5 * time.Second
)

// bindQuiet adds --quiet, which newProgress obeys.
func (p *program) bindQuiet(f *pflag.FlagSet) {
	f.BoolVarP(&p.quiet, "quiet", "q", false, "show no progress; warnings and errors are still shown")
}

// newProgress returns the progress of a command that has an input of that many
// bytes, on standard error. With --quiet it shows nothing.
func (p *program) newProgress(size int64) *progress {
	shown := &progress{w: p.stderr, quiet: p.quiet, size: size, begun: time.Now(), shown: time.Now()}
	if f, ok := isTerminal(p.stderr); ok && !p.quiet {
		shown.terminal, shown.shown = f, time.Time{}
	}
	return shown
}

// count returns a reader that counts what is read of the input.
func (p *progress) count(r io.Reader) io.Reader { return &countingReader{r: r, n: &p.read} }

type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// rows notes that so many more rows are done.
func (p *progress) rows(n int64) {
	p.total += n
	p.show(fmt.Sprintf("%d rows", p.total), p.read.Load(), p.size)
}

// part notes that so much of all is done, of a command that counts no rows.
func (p *progress) part(done, all int64) {
	if all > 0 {
		p.show("", done, all)
	}
}

// plants notes that so many plants of all are done; all is negative if that is
// not known.
func (p *progress) plants(done, all int64) {
	if all >= 0 {
		all = max(all, done) // there may be more by now
	}
	p.show(fmt.Sprintf("%d plants", done), done, all)
}

// show shows how much is done of all, if it is time to. Of an all that is not positive there is no percentage.
func (p *progress) show(counted string, done, all int64) {
	if !p.due() {
		return
	}
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
	elapsed := time.Since(p.begun)
	switch left := time.Duration(float64(elapsed) / float64(max(1, done)) * float64(all-done)).Round(time.Second); {
	case elapsed < time.Second: // too early to tell
	case all <= 0:
		parts = append(parts, formatDuration(elapsed.Truncate(time.Second)))
	case done > 0 && left > 0:
		parts = append(parts, formatDuration(left)+" left")
	}
	p.draw(strings.Join(parts, ", "), done, all)
}

// draw draws the bar anew, with a text behind it.
func (p *progress) draw(text string, done, all int64) {
	const (
		barColumns  = 30
		echoColumns = 4 // what a terminal echoes of Ctrl-C must not wrap, or the bar could not be erased
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

// clear erases the bar, and what was typed behind it.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[2K") // ECMA-48: erase the line
		p.drawn = false
	}
}

// due reports whether it is time to show something again.
func (p *progress) due() bool {
	if p.quiet {
		return false
	}
	every := plainEvery
	if p.terminal != nil {
		every = barEvery
	}
	if time.Since(p.shown) < every {
		return false
	}
	p.shown = time.Now()
	return true
}

// note writes a line about how far the command is, without disturbing the bar.
func (p *progress) note(text string) {
	if !p.quiet {
		p.line(text)
	}
}

// line writes a warning or an error without disturbing the bar, --quiet or not.
func (p *progress) line(text string) {
	p.clear()
	fmt.Fprintln(p.w, printable(text))
}

// end takes the bar away.
func (p *progress) end() { p.clear() }
