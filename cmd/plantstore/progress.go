package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// progress shows how far a long command is: as a bar on a terminal, as a line
// now and then elsewhere.
type progress struct {
	w     io.Writer
	quiet bool                     // shows no progress and no notes, only what line writes
	bar   *progressbar.ProgressBar // nil if w is no terminal
	size  int64                    // of the input in bytes; negative if unknown
	read  atomic.Int64             // bytes of the input
	total int64                    // rows
	shown time.Time                // when the bar was last drawn, or the last plain line written
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
	shown := &progress{w: p.stderr, quiet: p.quiet, size: size, shown: time.Now()}
	if f, ok := p.stderr.(*os.File); ok && !p.quiet && term.IsTerminal(int(f.Fd())) {
		shown.shown = time.Time{}
		shown.bar = progressbar.NewOptions64(size,
			progressbar.OptionSetWriter(p.stderr),
			progressbar.OptionShowBytes(size != 0),
			progressbar.OptionSetPredictTime(size > 0),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(),
		)
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

// begin shows the bar, before the first rows.
func (p *progress) begin() {
	if p.bar != nil {
		_ = p.bar.RenderBlank() // a bar that cannot be drawn is no reason to stop
	}
}

// rows notes that so many more rows are done.
func (p *progress) rows(n int64) {
	p.total += n
	if !p.due() {
		return
	}
	read := p.read.Load()
	switch {
	case p.bar != nil:
		if p.size > 0 {
			read = min(read, p.size-1) // a full bar is one that has ended; end does that
		}
		_ = p.bar.Set64(read)
		p.bar.Describe(fmt.Sprintf("%d rows", p.total))
	case p.size > 0:
		fmt.Fprintf(p.w, "%d rows, %d%% of the file\n", p.total, read*100/p.size)
	default:
		fmt.Fprintf(p.w, "%d rows\n", p.total)
	}
}

// part notes that so much of all is done, of a command that counts no rows.
func (p *progress) part(done, all int64) {
	switch {
	case !p.due() || all == 0:
	case p.bar != nil:
		p.bar.ChangeMax64(all)
		_ = p.bar.Set64(min(done, all-1))
	default:
		fmt.Fprintf(p.w, "%d%%\n", done*100/all)
	}
}

// plants notes that so many plants of all are done; all is negative if that is
// not known.
func (p *progress) plants(done, all int64) {
	if all >= 0 {
		all = max(all, done) // there may be more by now
	}
	switch {
	case !p.due():
	case p.bar != nil:
		if all > 0 {
			p.bar.ChangeMax64(all)
			_ = p.bar.Set64(min(done, all-1))
		}
		p.bar.Describe(fmt.Sprintf("%d plants", done))
	case all > 0:
		fmt.Fprintf(p.w, "%d plants, %d%%\n", done, done*100/all)
	default:
		fmt.Fprintf(p.w, "%d plants\n", done)
	}
}

// due reports whether it is time to show something again.
func (p *progress) due() bool {
	if p.quiet {
		return false
	}
	every := plainEvery
	if p.bar != nil {
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
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintln(p.w, printable(text))
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
