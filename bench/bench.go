package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// bench is one run of the program.
type bench struct {
	config
	log         *slog.Logger
	work        string // directory of temporary files; removed by close
	script      string // path of load.lua, for wrk
	cluster     *cluster
	certificate certificate // for the servers with TLS
	processors  [2]string   // for taskset: of the servers, of the generator
	raw         *os.File
	dirs        int // number of run directories so far
}

// newBench builds all contenders, opens the file of measurements and stores a description of the machine. The caller
// calls close.
func newBench(ctx context.Context, c config, log *slog.Logger) (_ *bench, err error) {
	b := &bench{config: c, log: log, processors: halves()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	b.last = b.lastRelease(ctx)
	if err := b.checkTools(); err != nil {
		return nil, err
	}
	if b.work, err = os.MkdirTemp("", "plantstore-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(b.work, 0o711); err != nil { //nolint:gosec // PostgreSQL's user needs access to its directory below
		return nil, err
	}
	b.script = filepath.Join(b.work, "load.lua")
	if err := os.WriteFile(b.script, loadScript, 0o600); err != nil {
		return nil, err
	}
	if b.certificate, err = newCertificate(b.work); err != nil {
		return nil, err
	}
	if err := errors.Join(b.build(ctx), b.buildLast(ctx)); err != nil {
		return nil, err
	}
	if b.usesPostgres() {
		if b.cluster, err = newCluster(ctx, filepath.Join(b.work, "postgres")); err != nil {
			return nil, err
		}
	}
	raw := filepath.Join(c.out, "performance", rawName)
	if b.raw, err = os.Create(raw); err != nil {
		return nil, err
	}
	described, err := b.describeMachine(ctx)
	if err != nil {
		return nil, err
	}
	return b, b.save(measurement{Machine: described})
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
		"go": "golang", "wrk": "wrk", "sqlite3": "sqlite3", "taskset": "util-linux", "git": "git",
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
		{root, "./cmd/plantstore"},
		{".", "./cmd/floor"},
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

// pinnedRounds is the number of rounds on separate processors, which are only a second view.
const pinnedRounds = 2

// compare runs every contender once a round with each number of connections. The first contender changes from round to
// round.
func (b *bench) compare(ctx context.Context) error {
	compared := slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return !b.compares(c.name) })
	for round := range b.rounds {
		sets := []string{setShared}
		if b.pin && round < pinnedRounds {
			sets = append(sets, setPinned)
		}
		for _, set := range sets {
			for _, connections := range connectionCounts {
				for i := range compared {
					c := compared[(round+i)%len(compared)]
					r := loadRun{Set: set, Round: round, Contender: c.name, Connections: connections}
					if err := b.load(ctx, c, r); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// runDir creates a directory for one run. The caller removes it.
func (b *bench) runDir() (string, error) {
	b.dirs++
	dir := filepath.Join(b.work, "run"+strconv.Itoa(b.dirs))
	return dir, os.Mkdir(dir, 0o711) //nolint:gosec // PostgreSQL's user needs access to its directory below
}

// syncDisks writes all dirty pages to disk, so that no run is slowed by the one before it.
func syncDisks(ctx context.Context) error {
	syscall.Sync()
	select {
	case <-time.After(300 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitFor polls condition every millisecond until it is true, for up to 30 s. It returns an error if the process exits
// first; name is for that error.
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

// halves divides the processors of the machine into two lists for taskset.
func halves() [2]string {
	all := runtime.NumCPU()
	return [2]string{fmt.Sprintf("0-%d", max(all/2, 1)-1), fmt.Sprintf("%d-%d", all/2, all-1)}
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
