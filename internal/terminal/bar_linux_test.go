package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"plantstore/internal/terminal/ptytest"
)

// TestBarErased tests that end erases the bar at every stage of a command, also after the echo of Ctrl-C.
func TestBarErased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int64
		show func(p *Progress)
	}{
		"file, nothing done":           {1000, func(p *Progress) { p.Rows(0) }},
		"file, half done":              {1000, func(p *Progress) { p.read.Store(500); p.Rows(10) }},
		"input of unknown length":      {-1, func(p *Progress) { p.Rows(10) }},
		"parts, nothing done":          {0, func(p *Progress) { p.Part(0, 1) }},
		"parts, half done":             {0, func(p *Progress) { p.Part(1, 2) }},
		"parts, done":                  {0, func(p *Progress) { p.Part(2, 2) }},
		"plants of all":                {0, func(p *Progress) { p.Plants(1, 2) }},
		"plants of an unknown number":  {-1, func(p *Progress) { p.Plants(10, -1) }},
		"plants, a number known later": {0, func(p *Progress) { p.Plants(10, -1); p.shown = time.Time{}; p.Plants(20, 30) }},
		"a narrow terminal": {1000, func(p *Progress) {
			p.read.Store(1)
			p.started = p.started.Add(-1e6 * time.Hour)
			p.Rows(1e15)
		}},
		"with a line": {1000, func(p *Progress) {
			p.Rows(1)
			p.Line("line 3 is invalid")
			p.shown = time.Time{}
			p.Rows(1)
		}},
	} {
		for _, interrupted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, interrupted %t", name, interrupted), func(t *testing.T) {
				t.Parallel()
				var shown bytes.Buffer
				term, err := ptytest.New(&shown)
				if err != nil && os.Getenv("CI") != "true" {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				p := (&Streams{Stderr: term.TTY}).NewProgress(c.size)
				c.show(p)
				if interrupted {
					fmt.Fprint(term.TTY, "^C") // the echo of the terminal
				}
				p.End()
				fmt.Fprintln(term.TTY, "done")
				want := "done\n"
				if name == "with a line" {
					want = "line 3 is invalid\ndone\n"
				}
				term.Close()
				if got, err := ptytest.Screen(shown.String()); got != want || err != nil {
					t.Errorf("the screen has %q, %v, want %q; it received %q", got, err, want, &shown)
				}
				if !strings.Contains(shown.String(), "\r") {
					t.Errorf("no bar was shown: %q", &shown)
				}
			})
		}
	}
}
