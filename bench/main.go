// Bench compares Plant Store with a floor and with peers, and writes the pages of
// results. See README.md, or run it with -help.
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
		return 2 // the flag package printed the error
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
	last         string // git revision of the last release; "": none
	short        bool
}

// phases are the parts of a run, in their order.
var phases = []string{
	"compare", phaseTLS, "burst", "import", "growth", phaseConstrained, phaseSearch, phaseWebhook, phaseClient, "micro",
}

func parse(args []string, stderr io.Writer) (config, error) {
	c := config{phases: phases, connections: []int64{64, 256}, rows: []int64{0, 1_000_000, 10_000_000}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.root, "root", "..", "`directory` of Plant Store's sources")
	f.StringVar(&c.out, "out", filepath.Join("..", "docs", "explanation"),
		"`directory` for the pages, and for performance/ with the measurements and the charts")
	f.StringVar(&c.scratch, "scratch", "",
		"`directory` for the generated stores, which are kept; empty: a temporary directory")
	f.StringVar(&c.csv, "csv", cmp.Or(os.Getenv("BENCH_CSV"),
		filepath.Join("..", "..", "shared", "data", "large_ipni.csv.gz")),
		"CSV `file` of real plants to import (id,name,tag), may be gzip; default from BENCH_CSV if set")
	f.Func("phases", "`list` of phases: "+strings.Join(phases,
		",")+"; report alone rewrites the pages from the measurements", func(s string) error {
		c.phases = strings.Split(s, ",")
		for _, p := range c.phases {
			if !slices.Contains(phases, p) && s != "report" {
				return fmt.Errorf("phase must be one of %s; got %q", strings.Join(phases, ","), p)
			}
		}
		return nil
	})
	f.Func("only", "`list` of contenders to compare and to search; empty: all", func(s string) error {
		c.only = strings.Split(s, ",")
		for _, name := range c.only {
			if contenderNamed(name) == nil {
				return fmt.Errorf("unknown contender %q", name)
			}
		}
		return nil
	})
	f.IntVar(&c.rounds, "rounds", 5, "`number` of rounds of the comparison; each contender runs once a round. "+
		"The other phases have at most 3")
	f.Func("connections", "`list` of numbers of connections (default 64,256)", numbers(&c.connections))
	f.DurationVar(&c.duration, "duration", 6*time.Second,
		"measured `time` of each run, in whole seconds, after a second of warm-up")
	f.BoolVar(&c.pin, "pin", true, "also compare with the generator and the servers on separate processors, in 2 rounds")
	f.StringVar(&c.last, "last", "", "git `revision` of the last release, to measure in the same rounds; "+
		"default: the newest tag; "+noLast+": no revision")
	f.BoolVar(&c.short, "short", false, "a quick view of 3 minutes: fewer phases, contenders, rounds and rows, less "+
		"time; the pages go to dist/bench")
	f.Func("rows", "`list` of initial numbers of plants for growth (default 0,1000000,10000000)", numbers(&c.rows))
	f.DurationVar(&c.walTime, "wal", time.Minute, "`time` of load while the size of the WAL is sampled")
	f.IntVar(&c.microCount, "micro", 4, "`count` of runs of each micro benchmark")
	f.BoolVar(&c.add, "append", false, "append to the measurements instead of replacing them")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if c.short {
		set := map[string]bool{}
		f.Visit(func(given *flag.Flag) { set[given.Name] = true })
		c.shorten(set)
	}
	if err := c.check(f.Args()); err != nil {
		fmt.Fprintln(stderr, err)
		return c, err
	}
	return c, nil
}

// shorten sets the flags of -short that are not set.
func (c *config) shorten(set map[string]bool) {
	short := config{
		out: filepath.Join("..", "dist", "bench"), phases: []string{"compare", "burst", "import", "growth"},
		only: []string{floorName, productName, plainName, lastName}, rounds: 2, duration: 2 * time.Second,
		rows: []int64{0, 200_000}, walTime: 5 * time.Second,
	}
	for name, apply := range map[string]func(){
		"out":      func() { c.out = short.out },
		"phases":   func() { c.phases = short.phases },
		"only":     func() { c.only = short.only },
		"rounds":   func() { c.rounds = short.rounds },
		"duration": func() { c.duration = short.duration },
		"rows":     func() { c.rows = short.rows },
		"wal":      func() { c.walTime = short.walTime },
		"pin":      func() { c.pin = false },
	} {
		if !set[name] {
			apply()
		}
	}
}

func (c *config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q; use flags only", rest[0])
	case c.rounds < 1 || c.microCount < 1:
		return errors.New("-rounds and -micro must be at least 1")
	case c.duration < time.Second || c.duration%time.Second != 0 || c.walTime < time.Second || c.walTime%time.Second != 0:
		return errors.New("-duration and -wal must be whole seconds, as wrk requires")
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
				return fmt.Errorf("number must be an integer of at least 0; got %q", part)
			}
			*to = append(*to, n)
		}
		return nil
	}
}

// run measures the phases of c and writes the pages.
func run(ctx context.Context, c config, log *slog.Logger) (err error) {
	results := filepath.Join(c.out, "performance")
	if err := os.MkdirAll(results, 0o755); err != nil { //nolint:gosec // results are public
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
		measure := map[string]func(context.Context) error{
			"compare": b.compare, phaseTLS: b.secured, "burst": b.bursts, "import": b.imports, "growth": b.growth,
			phaseConstrained: b.constrained,
			phaseSearch:      b.search, phaseWebhook: b.webhooks, phaseClient: b.clients,
			"micro": b.micro,
		}[phase]
		if err := measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
	}
	return writeReport(c.out)
}
