// Bench compares Plant Store with a floor and with peers, and writes the page of results. See README.md, or run it with
// -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(mainExit()) } //nolint:forbidigo // the exit code of main

func mainExit() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2 // parse printed the error
	}
	if err := run(ctx, c, log); err != nil {
		log.Error("bench", "error", err)
		return 1
	}
	return 0
}

// config is the command line.
type config struct {
	out      string
	only     []string // names of contenders; nil: all
	rounds   int
	duration time.Duration
	pin      bool
	last     string // git revision of the last release; "": none
}

// root is the directory of Plant Store's sources.
const root = ".."

// connectionCounts are the numbers of connections of the generator.
var connectionCounts = []int64{64, 256}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.out, "out", filepath.Join("..", "docs", "explanation"),
		"`directory` for the page, and for performance/ with the measurements")
	f.Func("only", "`list` of contenders; empty: all", func(s string) error {
		c.only = strings.Split(s, ",")
		for _, name := range c.only {
			if contenderNamed(name) == nil {
				return fmt.Errorf("unknown contender %q", name)
			}
		}
		return nil
	})
	f.IntVar(&c.rounds, "rounds", 5, "`number` of rounds, in each of which every contender runs once with each number of "+
		"connections; 0: write the page from the stored measurements")
	f.DurationVar(&c.duration, "duration", 6*time.Second,
		"measured `time` of each run, in whole seconds, after a second of warm-up")
	f.BoolVar(&c.pin, "pin", true, "also run the generator and the servers on separate processors, in 2 rounds")
	f.StringVar(&c.last, "last", "", "git `revision` of the last release, to measure in the same rounds; empty: the "+
		"newest tag, if there is one")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	err := c.check(f.Args())
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return c, err
}

func (c *config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q; use flags only", rest[0])
	case c.rounds < 0:
		return fmt.Errorf("-rounds must be at least 0; got %d", c.rounds)
	case c.duration < time.Second || c.duration%time.Second != 0:
		return fmt.Errorf("-duration must be whole seconds, as wrk requires; got %v", c.duration)
	}
	return nil
}

// run measures the contenders and writes the page.
func run(ctx context.Context, c config, log *slog.Logger) (err error) {
	if c.rounds == 0 {
		return writeReport(c.out)
	}
	if err := os.MkdirAll(filepath.Join(c.out, "performance"), 0o755); err != nil { //nolint:gosec // results are public
		return err
	}
	b, err := newBench(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.compare(ctx); err != nil {
		return err
	}
	return writeReport(c.out)
}
