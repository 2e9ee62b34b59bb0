package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bench is one run of the program.
type bench struct {
	config
	log     *slog.Logger
	work    string // where everything that is not kept lies; removed by close
	stores  string // where the stores that runs begin on lie
	script  string // load.lua as a file, for wrk
	cluster *cluster
	half    [2]string // lists of processors: for the servers, for the generator
	raw     *os.File
	dirs    int // how many runs had a directory so far
	round   int // the number of the first round; more than 0 if rounds are added to those that are there
}

// newBench builds all contenders, notes what machine this is, and opens the
// raw rounds.
func newBench(ctx context.Context, c config, log *slog.Logger) (_ *bench, err error) {
	b := &bench{config: c, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := b.needTools(); err != nil {
		return nil, err
	}
	if c.scratch != "" {
		if c.scratch, err = filepath.Abs(c.scratch); err != nil {
			return nil, err
		}
	}
	if b.work, err = os.MkdirTemp(c.scratch, "plantstore-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(b.work, 0o711); err != nil { //nolint:gosec // PostgreSQL's user has to pass through
		return nil, err
	}
	b.stores = filepath.Join(cmp.Or(c.scratch, b.work), "stores")
	if err := os.MkdirAll(b.stores, 0o700); err != nil {
		return nil, err
	}
	b.script = filepath.Join(b.work, "load.lua")
	if err := os.WriteFile(b.script, loadScript, 0o600); err != nil {
		return nil, err
	}
	if b.half, err = processorHalves(); err != nil {
		return nil, err
	}
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	if b.wants("plainpg") {
		if b.cluster, err = newCluster(ctx, filepath.Join(b.work, "postgres")); err != nil {
			return nil, err
		}
	}
	if err := b.openRaw(filepath.Join(c.out, "performance", rawName)); err != nil {
		return nil, err
	}
	facts, err := b.facts(ctx)
	if err != nil {
		return nil, err
	}
	return b, b.note(record{Machine: facts})
}

// openRaw begins the raw rounds, or goes on with them.
func (b *bench) openRaw(path string) (err error) {
	how := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if b.add && fileExists(path) {
		how = os.O_WRONLY | os.O_APPEND
		earlier, err := readRaw(path)
		if err != nil {
			return err
		}
		b.round = nextRound(earlier)
	}
	b.raw, err = os.OpenFile(path, how, 0o644) //nolint:gosec // results for everybody
	return err
}

// nextRound returns a number that no round has yet: ratios are taken within
// a round.
func nextRound(all []record) int {
	next := 0
	for _, r := range all {
		if r.Load != nil {
			next = max(next, r.Load.Round+1)
		}
		if r.Import != nil {
			next = max(next, r.Import.Round+1)
		}
	}
	return next
}

func (b *bench) close() error {
	var errs []error
	if b.raw != nil {
		errs = append(errs, b.raw.Close())
	}
	if b.work != "" {
		errs = append(errs, os.RemoveAll(b.work))
	}
	return errors.Join(errs...)
}

// note adds a record to the raw rounds.
func (b *bench) note(r record) error {
	r.At = time.Now().UTC().Truncate(time.Second)
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = b.raw.Write(append(line, '\n'))
	return err
}

// needTools names every program that is missing, and the package that has it.
func (b *bench) needTools() error {
	var errs []error
	for program, pkg := range map[string]string{"go": "golang", "wrk": "wrk", "sqlite3": "sqlite3", "taskset": "util-linux", "git": "git"} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("there is no %s: apt-get install %s", program, pkg))
		}
	}
	if b.wants("plainpg") {
		if _, err := postgresBin(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// build compiles every program in the way in which a release is compiled.
func (b *bench) build(ctx context.Context) error {
	for _, p := range []struct{ dir, pkg string }{
		{b.root, "./cmd/plantstore"},
		{".", "./cmd/floor"},
		{".", "./cmd/plain"},
		{".", "./cmd/plainpg"},
		{filepath.Join("cmd", "pocketbase"), "."},
	} {
		b.log.Info("building", "dir", p.dir, "package", p.pkg)
		command := exec.CommandContext(ctx, "go", "build", "-C", p.dir, "-trimpath", "-ldflags=-s -w", "-o", b.work+"/", p.pkg)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s in %s: %w\n%s", p.pkg, p.dir, err, out)
		}
	}
	return nil
}

func (b *bench) program(name string) string { return filepath.Join(b.work, name) }

// runDir makes a directory for one run; the caller removes it.
func (b *bench) runDir() (string, error) {
	b.dirs++
	dir := filepath.Join(b.work, "run"+strconv.Itoa(b.dirs))
	return dir, os.Mkdir(dir, 0o711) //nolint:gosec // PostgreSQL's user has to pass through
}

// settle puts on disk what is still to be written, so that no run pays for
// what was before it.
func settle(ctx context.Context) error {
	syscall.Sync()
	return pause(ctx, 300*time.Millisecond)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitFor asks every millisecond until it is so, for half a minute.
func waitFor(ctx context.Context, what string, ended <-chan struct{}, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("%s: the process has ended", what)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
	return nil
}

// processorHalves divides the processors that this process may use.
func processorHalves() (halves [2]string, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return halves, err
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err := errors.Join(err1, err2); err != nil {
				return halves, err
			}
			for cpu := first; cpu <= last; cpu++ {
				all = append(all, strconv.Itoa(cpu))
			}
		}
	}
	middle := len(all) / 2
	return [2]string{strings.Join(all[:middle], ","), strings.Join(all[middle:], ",")}, nil
}

// readRaw reads the raw rounds.
func readRaw(path string) ([]record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(all)+1, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}
