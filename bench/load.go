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

// firstID is the smallest id of load.lua and of the generated plants.
const firstID int64 = 1_000_000_000_000_000

// The streams of ids; see load.lua.
const (
	streamGenerated = iota // of the generated stores
	streamWarmUp
	streamMeasured // of a run; the phases of a burst round use this and the next two
)

// generatorThreads is the number of wrk's threads, or the number of connections if
// that is less.
const generatorThreads = 2

// warmUpTime is the unmeasured time at the start of a run.
const warmUpTime = time.Second

// loadSpec is one run of the generator against one contender.
type loadSpec struct {
	phase, set  string
	round       int
	contender   string
	connections int64
	tls         bool
	order       string
	store       generatedStore // initial content; zero: empty
	time        time.Duration
	walBound    int64  // 0: the default
	webhook     string // URL that receives the events; "": none
	byClient    bool   // by the Go client instead of wrk
	constrained bool   // see constrained.go
}

const (
	setShared = "shared"
	setPinned = "pinned"
)

// load does one run and saves its measurement, with the fault if the run failed.
// It returns an error only if no further run is possible.
func (b *bench) load(ctx context.Context, spec loadSpec) error {
	r := loadRun{
		Phase: spec.phase, Set: spec.set, Round: spec.round, Contender: spec.contender,
		Connections: spec.connections, TLS: spec.tls, Order: spec.order, Before: spec.store.rows, WALBound: spec.walBound,
		Webhook: spec.webhook != "",
	}
	dir, err := b.runDir()
	if err != nil {
		return err
	}
	err = b.loadIn(ctx, dir, spec, &r)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.Fault = err.Error()
	}
	b.log.Info("measured", "phase", r.Phase, "set", r.Set, "round", r.Round, "contender", r.Contender, "connections",
		r.Connections,
		"tls", r.TLS, "webhook", r.Webhook, "order", r.Order, "before", r.Before, "rate", int(r.Generator.perSecond()),
		"p99", time.Duration(r.Generator.P99)*time.Microsecond, "fault", r.Fault)
	return errors.Join(b.save(measurement{Load: &r}), os.RemoveAll(dir))
}

func (b *bench) loadIn(ctx context.Context, dir string, spec loadSpec, r *loadRun) error {
	s := &server{contender: *contenderNamed(spec.contender), dir: dir, tls: spec.tls, webhook: spec.webhook}
	generatorCPUs := ""
	if spec.set == setPinned {
		s.cpus, generatorCPUs = b.processors[0], b.processors[1]
	}
	if spec.constrained {
		group, err := newCgroup(constrainedMemory)
		if err != nil {
			return err
		}
		defer group.remove()
		s.group = group
	}
	if spec.walBound > 0 {
		s.walBound = strconv.FormatInt(spec.walBound, 10)
	}
	if err := spec.store.copyTo(ctx, filepath.Join(dir, "plants.db")); err != nil {
		return err
	}
	if err := syncDisks(ctx); err != nil {
		return err
	}
	r.LoadBefore = loadAverage()
	if err := b.launch(ctx, s); err != nil {
		return err
	}
	before, counted, err := b.measure(ctx, s, generatorCPUs, spec, r)
	if err := errors.Join(err, s.shutdown()); err != nil {
		return err
	}
	return s.countStored(ctx, spec, before, counted, r)
}

// measure warms the server up and measures it. For a database server it returns
// the bytes of the tables before and the number of rows after.
func (b *bench) measure(ctx context.Context, s *server, cpus string, spec loadSpec, r *loadRun) (before, counted int64,
	err error,
) {
	if s.database != nil {
		if before, err = s.database.tableBytes(); err != nil {
			return 0, 0, err
		}
	}
	warm, err := b.generate(ctx, s, cpus, spec, streamWarmUp, warmUpTime)
	if err != nil {
		return 0, 0, err
	}
	watch := watchWAL(s)
	if err := b.measureStream(ctx, s, cpus, spec, streamMeasured, r); err != nil {
		return 0, 0, err
	}
	r.WALPeak = watch()
	if spec.webhook != "" {
		if r.Delivered, err = s.delivered(ctx); err != nil {
			return 0, 0, err
		}
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

// measureStream runs the generator for the time of spec, and sets its result and
// the resources of the server in r.
func (b *bench) measureStream(ctx context.Context, s *server, cpus string, spec loadSpec, stream int,
	r *loadRun,
) error {
	before, err := s.usage()
	if err != nil {
		return err
	}
	if r.Generator, err = b.generate(ctx, s, cpus, spec, stream, spec.time); err != nil {
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
	return s.memory(r)
}

// generate runs wrk with ids of one stream, or the Go client with random ones.
func (b *bench) generate(ctx context.Context, s *server, cpus string, spec loadSpec, stream int,
	d time.Duration,
) (wrkResult, error) {
	threads := strconv.FormatInt(min(generatorThreads, spec.connections), 10)
	args := []string{
		"wrk", "-t", threads, "-c", strconv.FormatInt(spec.connections, 10), "-d", fmt.Sprint(int(d.Seconds())) + "s",
		"--timeout", "10s", "-s", b.script, s.url(),
		"--", s.path, s.member, s.token, spec.order, strconv.Itoa(stream), strconv.Itoa(spec.round), threads,
	}
	if spec.byClient {
		spec.time = d
		out, err := b.creator(ctx, s, spec).Output()
		if err != nil {
			return wrkResult{}, fmt.Errorf("creator: %w", err)
		}
		return parseWrk(out)
	}
	if cpus != "" {
		args = append([]string{"taskset", "-c", cpus}, args...)
	}
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if err != nil {
		return wrkResult{}, fmt.Errorf("wrk: %w", err)
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

// countStored counts rows and bytes after the shutdown, and compares the rows with
// the acknowledged plants.
func (s *server) countStored(ctx context.Context, spec loadSpec, before, counted int64, r *loadRun) (err error) {
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
		r.Rows -= spec.store.rows
		r.DiskBytes, err = diskBytes(path, path+"-*")
		r.DiskBytes -= spec.store.bytes
	default:
		return nil // the floor stores nothing
	}
	if err == nil && r.Rows < r.Answers {
		err = fmt.Errorf("%d plants were acknowledged, but only %d are stored", r.Answers, r.Rows)
	}
	return err
}

// memory sets the resident memory of the server and its database in r.
func (s *server) memory(r *loadRun) (err error) {
	status := fmt.Sprintf("/proc/%d/status", s.pid())
	if r.ServerBytes, err = kibibytes(status, "VmRSS"); err != nil {
		return err
	}
	if r.ServerPeak, err = kibibytes(status, "VmHWM"); err != nil {
		return err
	}
	if s.database != nil {
		r.DatabaseBytes = processTreeMemory(s.database.pid())
	}
	return nil
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

// watchWAL samples the size of the WAL. The returned function ends the sampling and
// returns the largest size. The caller must call it.
func watchWAL(s *server) func() int64 {
	if s.file == "" {
		return func() int64 { return 0 }
	}
	path := filepath.Join(s.dir, s.file) + "-wal"
	stop, result := make(chan struct{}), make(chan int64)
	go func() { // ends when stop is closed
		var largest int64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if info, err := os.Stat(path); err == nil {
				largest = max(largest, info.Size())
			}
			select {
			case <-tick.C:
			case <-stop:
				result <- largest
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-result
	}
}
