// Bench measures Plant Store against a floor and against its peers, from the
// raw rounds to the page of results. See README.md, or run it with -help.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(mainExit()) } //nolint:forbidigo // it is main

func mainExit() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2 // the flag package has said why
	}
	if err := run(ctx, c, log); err != nil {
		log.Error("bench", "error", err)
		return 1
	}
	return 0
}

// config is the command line.
type config struct {
	root, out, scratch, csv string

	phases, only []string
	rounds       int
	connections  []int64
	duration     time.Duration
	pin          bool
	rows         []int64
	walTime      time.Duration
	microCount   int
	add          bool
}

// phases are the parts of a run, in their order.
var phases = []string{"compare", "burst", "import", "growth", "micro"}

func parse(args []string, stderr io.Writer) (config, error) {
	c := config{phases: phases, connections: []int64{64, 256}, rows: []int64{0, 1_000_000, 10_000_000}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.root, "root", "..", "`directory` of the product's sources")
	f.StringVar(&c.out, "out", filepath.Join("..", "docs", "explanation"), "`directory` for performance.md, and for performance/ with the raw rounds and the plots")
	f.StringVar(&c.scratch, "scratch", "", "`directory` for the stores, kept; none: a temporary one that is removed")
	f.StringVar(&c.csv, "csv", cmp.Or(os.Getenv("BENCH_CSV"), filepath.Join("..", "..", "shared", "data", "large_ipni.csv.gz")),
		"`file` of real plants to import, id,name,tag as CSV, compressed by gzip or not; the environment's BENCH_CSV if set")
	f.Func("phases", "`list` of what to measure: "+strings.Join(phases, ",")+"; report alone writes the page anew from the raw rounds", func(s string) error {
		c.phases = strings.Split(s, ",")
		for _, p := range c.phases {
			if !slices.Contains(phases, p) && s != "report" {
				return fmt.Errorf("%q is none of %s", p, strings.Join(phases, ","))
			}
		}
		return nil
	})
	f.Func("only", "`list` of contenders to compare; none: all", func(s string) error {
		c.only = strings.Split(s, ",")
		for _, name := range c.only {
			if contenderNamed(name) == nil {
				return fmt.Errorf("there is no contender %q", name)
			}
		}
		return nil
	})
	f.IntVar(&c.rounds, "rounds", 5, "`number` of rounds; every contender runs once in each")
	f.Func("connections", "`list` of numbers of connections (default 64,256)", numbers(&c.connections))
	f.DurationVar(&c.duration, "duration", 10*time.Second, "`time` that is measured in each run, in whole seconds; one second of warm-up comes before it")
	f.BoolVar(&c.pin, "pin", false, "measure a second set with the generator and the servers on processors of their own")
	f.Func("rows", "`list` of how many plants a store holds before growth is measured (default 0,1000000,10000000)", numbers(&c.rows))
	f.DurationVar(&c.walTime, "wal", time.Minute, "`time` of continuous load while the write-ahead log is watched")
	f.IntVar(&c.microCount, "micro", 6, "`count` of each micro benchmark")
	f.BoolVar(&c.add, "append", false, "add to the raw rounds that are there, instead of beginning anew")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if err := c.check(f.Args()); err != nil {
		fmt.Fprintln(stderr, err)
		return c, err
	}
	return c, nil
}

func (c *config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %q? There are only flags", rest[0])
	case c.rounds < 1 || c.microCount < 1:
		return errors.New("rounds, micro: at least 1")
	case c.duration < time.Second || c.duration%time.Second != 0 || c.walTime < time.Second || c.walTime%time.Second != 0:
		return errors.New("duration, wal: whole seconds, because wrk takes no others")
	}
	slices.Sort(c.rows)
	return nil
}

func numbers(to *[]int64) func(string) error {
	return func(s string) error {
		*to = nil
		for part := range strings.SplitSeq(s, ",") {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil || n < 0 {
				return fmt.Errorf("%q is no number", part)
			}
			*to = append(*to, n)
		}
		return nil
	}
}

// run measures what was asked for, and writes the page.
func run(ctx context.Context, c config, log *slog.Logger) (err error) {
	results := filepath.Join(c.out, "performance")
	if err := os.MkdirAll(results, 0o755); err != nil { //nolint:gosec // pages for everybody
		return err
	}
	if slices.Equal(c.phases, []string{"report"}) {
		return writeReport(c.out)
	}
	b, err := newBench(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, phase := range phases {
		if !slices.Contains(c.phases, phase) {
			continue
		}
		log.Info("phase", "phase", phase)
		do := map[string]func(context.Context) error{
			"compare": b.compare, "burst": b.bursts, "import": b.imports, "growth": b.growth, "micro": b.micro,
		}[phase]
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
	}
	return writeReport(c.out)
}
