package main

import (
	"bytes"
	"context"
	_ "embed" // for load.lua
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed load.lua
var loadScript []byte

// firstID is the smallest id of load.lua.
const firstID int64 = 1_000_000_000_000_000

// The streams of ids; see load.lua.
const (
	streamWarmUp = iota
	streamMeasured
)

// generatorThreads is the number of wrk's threads.
const generatorThreads = 2

// warmUpTime is the unmeasured time at the start of a run.
const warmUpTime = time.Second

// load does the run r and saves it, with the fault if the run failed. It returns an error only if no further run is
// possible.
func (b *bench) load(ctx context.Context, c contender, r loadRun) error {
	dir, err := b.runDir()
	if err != nil {
		return err
	}
	err = b.loadIn(ctx, dir, c, &r)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.Fault = err.Error()
	}
	b.log.Info("measured", "set", r.Set, "round", r.Round, "contender", r.Contender, "connections", r.Connections,
		"rate", int(r.Generator.perSecond()), "p99", time.Duration(r.Generator.P99)*time.Microsecond, "fault", r.Fault)
	return errors.Join(b.save(measurement{Load: &r}), os.RemoveAll(dir))
}

func (b *bench) loadIn(ctx context.Context, dir string, c contender, r *loadRun) error {
	s := &server{contender: c, dir: dir}
	g := generator{script: b.script, server: s, run: r, time: b.duration}
	if r.Set == setPinned {
		s.cpus, g.cpus = b.processors[0], b.processors[1]
	}
	if err := syncDisks(ctx); err != nil {
		return err
	}
	r.LoadBefore = loadAverage()
	if err := b.launch(ctx, s); err != nil {
		return err
	}
	before, counted, err := g.measure(ctx)
	if err := errors.Join(err, s.shutdown()); err != nil {
		return err
	}
	return s.countStored(ctx, before, counted, r)
}

// generator sends the requests of a run to a server.
type generator struct {
	script string
	server *server
	run    *loadRun
	time   time.Duration // measured
	cpus   string        // for taskset; "": all processors
}

// measure warms the server up and measures it. For a database server it returns the bytes of the tables before and the
// number of rows after.
func (g *generator) measure(ctx context.Context) (before, counted int64, err error) {
	s, r := g.server, g.run
	if s.database != nil {
		if before, err = s.database.tableBytes(); err != nil {
			return 0, 0, err
		}
	}
	warm, err := g.send(ctx, streamWarmUp, warmUpTime)
	if err != nil {
		return 0, 0, err
	}
	if err := g.sendMeasured(ctx); err != nil {
		return 0, 0, err
	}
	if s.receiver != nil && s.receiver.events.Load() == 0 {
		return 0, 0, errors.New("the server has delivered no event")
	}
	r.Answers = 1 + warm.answers() + r.Generator.answers()
	switch {
	case s.database != nil:
		counted, err = s.database.countRows(ctx)
	case s.citus != nil:
		counted, err = s.citus.countRows(ctx)
	}
	if n := warm.failures() + r.Generator.failures(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests failed: %+v in the warm-up, %+v while measured", n, warm, r.Generator))
	}
	return before, counted, err
}

// sendMeasured sets the result of the generator and the resources of the server in the run.
func (g *generator) sendMeasured(ctx context.Context) error {
	s, r := g.server, g.run
	before, err := s.usage()
	if err != nil {
		return err
	}
	if r.Generator, err = g.send(ctx, streamMeasured, g.time); err != nil {
		return err
	}
	after, err := s.usage()
	if err != nil {
		return err
	}
	if n := float64(r.Generator.Requests); n > 0 {
		r.ServerMicros = float64((after.server - before.server).Microseconds()) / n
		r.DatabaseMicros = float64((after.database - before.database).Microseconds()) / n
	}
	if all := after.all - before.all; all > 0 {
		r.Stolen = float64(after.stolen-before.stolen) / float64(all)
	}
	if r.ServerPeak, err = kibibytes(fmt.Sprintf("/proc/%d/status", s.pid()), "VmHWM"); err != nil {
		return err
	}
	if s.database != nil {
		r.DatabaseBytes = processTreeMemory(s.database.pid())
	}
	return nil
}

// send runs wrk with ids of one stream.
func (g *generator) send(ctx context.Context, stream int, d time.Duration) (r wrkResult, err error) {
	s, threads := g.server, strconv.Itoa(generatorThreads)
	args := []string{
		"wrk", "-t", threads, "-c", strconv.FormatInt(g.run.Connections, 10), "-d", fmt.Sprint(int(d.Seconds())) + "s",
		"--timeout", "10s", "-s", g.script, s.url(),
		"--", s.path, s.member, s.token, strconv.Itoa(stream), strconv.Itoa(g.run.Round),
	}
	if g.cpus != "" {
		args = append([]string{"taskset", "-c", g.cpus}, args...)
	}
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if err != nil {
		return r, fmt.Errorf("wrk: %w", err)
	}
	return parseWrk(out)
}

// parseWrk parses the line that load.lua adds to wrk's output.
func parseWrk(out []byte) (r wrkResult, err error) {
	for line := range bytes.Lines(out) {
		if line[0] == '{' {
			return r, json.Unmarshal(line, &r)
		}
	}
	return r, fmt.Errorf("wrk: output has no result: %q", out)
}

// countStored counts rows and bytes after the shutdown, and compares the rows with the acknowledged plants.
func (s *server) countStored(ctx context.Context, before, counted int64, r *loadRun) (err error) {
	switch {
	case s.database != nil:
		r.Rows = counted
		r.DiskBytes, err = s.database.tableBytes()
		r.DiskBytes -= before
	case s.citus != nil:
		r.Rows = counted
	case s.file != "":
		path := filepath.Join(s.dir, s.file)
		if r.Rows, err = countFile(ctx, path); err != nil {
			return err
		}
		r.DiskBytes, err = diskBytes(path, path+"-*")
	default:
		return nil // the floor stores nothing
	}
	if err == nil && r.Rows < r.Answers {
		err = fmt.Errorf("%d plants were acknowledged, but only %d are stored", r.Answers, r.Rows)
	}
	return err
}

// countFile counts the plants of a SQLite file that no process has open.
func countFile(ctx context.Context, path string) (int64, error) {
	out, err := exec.CommandContext(ctx, "sqlite3", path, "SELECT count(*) FROM plants").Output()
	if err != nil {
		return 0, fmt.Errorf("count the rows of %s: %w", filepath.Base(path), err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}

// usage is processor time since the start; all and stolen are the machine's.
type usage struct {
	server, database, all, stolen time.Duration
}

func (s *server) usage() (u usage, err error) {
	if u.server, err = processorTime(s.pid()); err != nil {
		return u, err
	}
	if s.database != nil {
		if u.database, err = processTreeTime(s.database.pid()); err != nil {
			return u, err
		}
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	const stolen = 8 // https://man7.org/linux/man-pages/man5/proc_stat.5.html
	for i, field := range strings.Fields(first) {
		if i == 0 || i > stolen { // the fields after it are parts of earlier ones
			continue
		}
		u.all += ticks(field)
		if i == stolen {
			u.stolen = ticks(field)
		}
	}
	return u, nil
}

func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseFloat(first, 64) // 0 if the file is missing
	return n
}
