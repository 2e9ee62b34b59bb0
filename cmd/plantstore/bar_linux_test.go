package main

import (
	"bytes"
	"fmt"
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
		show func(p *progress)
	}{
		"file, nothing done":           {1000, func(p *progress) { p.rows(0) }},
		"file, half done":              {1000, func(p *progress) { p.read.Store(500); p.rows(10) }},
		"input of unknown length":      {-1, func(p *progress) { p.rows(10) }},
		"parts, nothing done":          {0, func(p *progress) { p.part(0, 1) }},
		"parts, half done":             {0, func(p *progress) { p.part(1, 2) }},
		"parts, done":                  {0, func(p *progress) { p.part(2, 2) }},
		"plants of all":                {0, func(p *progress) { p.plants(1, 2) }},
		"plants of an unknown number":  {-1, func(p *progress) { p.plants(10, -1) }},
		"plants, a number known later": {0, func(p *progress) { p.plants(10, -1); p.shown = time.Time{}; p.plants(20, 30) }},
		"a narrow terminal": {1000, func(p *progress) {
			p.read.Store(1)
			p.started = p.started.Add(-1e6 * time.Hour)
			p.rows(1e15)
		}},
		"with a line": {1000, func(p *progress) {
			p.rows(1)
			p.line("line 3 is invalid")
			p.shown = time.Time{}
			p.rows(1)
		}},
	} {
		for _, interrupted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, interrupted %t", name, interrupted), func(t *testing.T) {
				t.Parallel()
				var shown bytes.Buffer
				term := ptytest.New(t, &shown)
				p := (&streams{stderr: term.TTY}).newProgress(c.size)
				c.show(p)
				if interrupted {
					fmt.Fprint(term.TTY, "^C") // the echo of the terminal
				}
				p.end()
				fmt.Fprintln(term.TTY, "done")
				want := "done\n"
				if name == "with a line" {
					want = "line 3 is invalid\ndone\n"
				}
				term.Close()
				if got := ptytest.Screen(t, shown.String()); got != want {
					t.Errorf("the screen has %q, want %q; it received %q", got, want, &shown)
				}
				if !strings.Contains(shown.String(), "\r") {
					t.Errorf("no bar was shown: %q", &shown)
				}
			})
		}
	}
}
