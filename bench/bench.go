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
	log         *slog.Logger
	work        string // directory of temporary files; removed by close
	stores      string // directory of the generated stores
	script      string // path of load.lua, for wrk
	cluster     *cluster
	certificate certificate // of the servers with TLS
	processors  [2]string   // for taskset: of the servers, of the generator
	raw         *os.File
	dirs        int // number of run directories so far
	round       int // number of the first round; above 0 with -append
}

// newBench builds all contenders, opens the file of measurements and stores a
// description of the machine. The caller calls close.
func newBench(ctx context.Context, c config, log *slog.Logger) (_ *bench, err error) {
	b := &bench{config: c, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := b.checkTools(); err != nil {
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
	if err := os.Chmod(b.work, 0o711); err != nil { //nolint:gosec // PostgreSQL's user needs access to its directory below
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
	if b.certificate, err = newCertificate(b.work); err != nil {
		return nil, err
	}
	if b.processors, err = splitProcessors(); err != nil {
		return nil, err
	}
	b.last = b.lastRelease(ctx)
	if err := errors.Join(b.build(ctx), b.buildLast(ctx)); err != nil {
		return nil, err
	}
	if b.usesPostgres() {
		if b.cluster, err = newCluster(ctx, filepath.Join(b.work, "postgres")); err != nil {
			return nil, err
		}
	}
	if err := b.openRaw(filepath.Join(c.out, "performance", rawName)); err != nil {
		return nil, err
	}
	described, err := b.describeMachine(ctx)
	if err != nil {
		return nil, err
	}
	return b, b.save(measurement{Machine: described})
}

// openRaw opens the file of measurements. It truncates the file unless -append is set.
func (b *bench) openRaw(path string) (err error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if b.add && fileExists(path) {
		flags = os.O_WRONLY | os.O_APPEND
		earlier, err := readRaw(path)
		if err != nil {
			return err
		}
		b.round = nextRound(earlier)
	}
	b.raw, err = os.OpenFile(path, flags, 0o644) //nolint:gosec // results are public
	return err
}

// phaseRounds returns the number of rounds of a phase that is not the comparison.
func (b *bench) phaseRounds() int {
	const most = 3
	return min(b.rounds, most)
}

// nextRound returns the first unused number of a round. Ratios compare runs of
// the same round, so appended rounds need new numbers.
func nextRound(all []measurement) int {
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

// save appends m, with the time, to the file of measurements.
func (b *bench) save(m measurement) error {
	m.At = time.Now().UTC().Truncate(time.Second)
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = b.raw.Write(append(line, '\n'))
	return err
}

// checkTools returns an error that names each missing program and its Debian package.
func (b *bench) checkTools() error {
	var errs []error
	for program, pkg := range map[string]string{
		"go": "golang", "wrk": "wrk", "sqlite3": "sqlite3",
		"taskset": "util-linux", "git": "git",
	} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing: apt-get install %s", program, pkg))
		}
	}
	if b.usesPostgres() {
		if _, err := postgresBin(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// build compiles every program with the flags of a release.
func (b *bench) build(ctx context.Context) error {
	for _, p := range []struct{ dir, pkg string }{
		{b.root, "./cmd/plantstore"},
		{".", "./cmd/floor"},
		{".", "./cmd/creator"},
		{".", "./cmd/plain"},
		{".", "./cmd/plainpg"},
		{filepath.Join("cmd", "pocketbase"), "."},
	} {
		b.log.Info("building", "dir", p.dir, "package", p.pkg)
		command := exec.CommandContext(ctx, "go", "build", "-C", p.dir, "-trimpath", "-ldflags=-s -w", "-o", b.work+"/",
			p.pkg)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s in %s: %w\n%s", p.pkg, p.dir, err, out)
		}
	}
	return nil
}

func (b *bench) program(name string) string { return filepath.Join(b.work, name) }

// runDir creates a directory for one run. The caller removes it.
func (b *bench) runDir() (string, error) {
	b.dirs++
	dir := filepath.Join(b.work, "run"+strconv.Itoa(b.dirs))
	return dir, os.Mkdir(dir, 0o711) //nolint:gosec // PostgreSQL's user needs access to its directory below
}

// syncDisks writes all dirty pages to disk, so that no run is slowed by the one
// before it.
func syncDisks(ctx context.Context) error {
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

// waitFor polls condition every millisecond until it is true, for up to 30 s. It
// returns an error if the process exits first; name is for that error.
func waitFor(ctx context.Context, name string, exited <-chan struct{}, condition func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-exited:
			return fmt.Errorf("%s: the process exited", name)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", name, ctx.Err())
		}
	}
	return nil
}

// splitProcessors divides the processors of this process into two lists for taskset.
func splitProcessors() (halves [2]string, err error) {
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

// readRaw reads a file of measurements.
func readRaw(path string) ([]measurement, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []measurement
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r measurement
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(all)+1, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}
