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

// firstID is the smallest id that load.lua and the made rows have.
const firstID int64 = 1_000_000_000_000_000

// The streams of ids; see load.lua.
const (
	streamMade = iota // in the stores that runs begin on
	streamWarmUp
	streamMeasured // the parts of a round of bursts also have the two that follow
)

// generatorThreads is how many threads the generator has, or one for each
// connection if these are fewer.
const generatorThreads = 2

// warmUpTime is the time before a run that is not measured.
const warmUpTime = time.Second

// loadSpec is one run of the generator against one contender.
type loadSpec struct {
	phase, set  string
	round       int
	contender   string
	connections int64
	order       string
	store       madeStore // what to begin on; zero: nothing
	time        time.Duration
	walBound    int64 // 0: the contender's own
}

const (
	setShared = "shared"
	setPinned = "pinned"
)

// load does one run and notes it. A run that went wrong is noted with its
// fault, and the others go on; an error means that nothing can go on.
func (b *bench) load(ctx context.Context, spec loadSpec) error {
	r := loadRecord{
		Phase: spec.phase, Set: spec.set, Round: spec.round, Contender: spec.contender,
		Connections: spec.connections, Order: spec.order, Before: spec.store.rows, WALBound: spec.walBound,
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
	b.log.Info("measured", "phase", r.Phase, "set", r.Set, "round", r.Round, "contender", r.Contender, "connections", r.Connections,
		"order", r.Order, "before", r.Before, "rate", int(r.Generator.perSecond()), "p99", time.Duration(r.Generator.P99)*time.Microsecond, "fault", r.Fault)
	return errors.Join(b.note(record{Load: &r}), os.RemoveAll(dir))
}

func (b *bench) loadIn(ctx context.Context, dir string, spec loadSpec, r *loadRecord) error {
	s := &server{contender: *contenderNamed(spec.contender), dir: dir}
	generatorCPUs := ""
	if spec.set == setPinned {
		s.cpus, generatorCPUs = b.half[0], b.half[1]
	}
	if spec.walBound > 0 {
		s.walBound = strconv.FormatInt(spec.walBound, 10)
	}
	if err := spec.store.copyTo(ctx, filepath.Join(dir, "plants.db")); err != nil {
		return err
	}
	if err := settle(ctx); err != nil {
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
	return s.account(ctx, spec, before, counted, r)
}

// measure warms the server up and measures it. It returns what a database
// server's tables took before, and its rows afterwards.
func (b *bench) measure(ctx context.Context, s *server, cpus string, spec loadSpec, r *loadRecord) (before, counted int64, err error) {
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
	r.Answers = 1 + warm.answers() + r.Generator.answers()
	if s.database != nil {
		counted, err = s.database.countRows(ctx)
	}
	if n := warm.failures() + r.Generator.failures(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests failed: %+v in the warm-up, %+v when it was measured", n, warm, r.Generator))
	}
	return before, counted, err
}

// measureStream runs the generator for the time of spec, and notes what it found
// and what the server used.
func (b *bench) measureStream(ctx context.Context, s *server, cpus string, spec loadSpec, stream int, r *loadRecord) error {
	from, err := s.use()
	if err != nil {
		return err
	}
	if r.Generator, err = b.generate(ctx, s, cpus, spec, stream, spec.time); err != nil {
		return err
	}
	to, err := s.use()
	if err != nil {
		return err
	}
	if n := float64(r.Generator.Requests); n > 0 {
		r.ServerMicros = float64((to.server - from.server).Microseconds()) / n
		r.DatabaseMicros = float64((to.database - from.database).Microseconds()) / n
	}
	if all := to.all - from.all; all > 0 {
		r.Stolen = float64(to.stolen-from.stolen) / float64(all)
	}
	return s.memory(r)
}

// generate runs wrk with ids of one stream.
func (b *bench) generate(ctx context.Context, s *server, cpus string, spec loadSpec, stream int, d time.Duration) (wrkResult, error) {
	threads := strconv.FormatInt(min(generatorThreads, spec.connections), 10)
	args := []string{
		"wrk", "-t", threads, "-c", strconv.FormatInt(spec.connections, 10), "-d", fmt.Sprint(int(d.Seconds())) + "s",
		"--timeout", "10s", "-s", b.script, "http://" + s.address,
		"--", s.path, s.member, s.token, spec.order, strconv.Itoa(stream), strconv.Itoa(spec.round), threads,
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

// parseWrk finds the line that load.lua adds to what wrk prints.
func parseWrk(out []byte) (r wrkResult, err error) {
	for line := range bytes.Lines(out) {
		if line[0] == '{' {
			return r, json.Unmarshal(line, &r)
		}
	}
	return r, fmt.Errorf("wrk printed no result: %s", out)
}

// account counts rows and bytes after a clean stop, and holds the rows against
// the answers.
func (s *server) account(ctx context.Context, spec loadSpec, before, counted int64, r *loadRecord) (err error) {
	switch {
	case s.database != nil:
		r.Rows = counted
		r.DiskBytes, err = s.database.tableBytes()
		r.DiskBytes -= before
	case s.file != "":
		path := filepath.Join(s.dir, s.file)
		if r.Rows, err = countFile(ctx, path); err != nil {
			return err
		}
		r.Rows -= spec.store.rows
		r.DiskBytes, err = diskBytes(path, path+"-*")
		r.DiskBytes -= spec.store.bytes
	default:
		return nil // it stores nothing
	}
	if err == nil && r.Rows < r.Answers {
		err = fmt.Errorf("%d plants were answered with 200, and only %d are stored", r.Answers, r.Rows)
	}
	return err
}

// memory notes what is resident.
func (s *server) memory(r *loadRecord) (err error) {
	status := fmt.Sprintf("/proc/%d/status", s.pid())
	if r.ServerBytes, err = kibibytes(status, "VmRSS"); err != nil {
		return err
	}
	if r.ServerPeak, err = kibibytes(status, "VmHWM"); err != nil {
		return err
	}
	if s.database != nil {
		r.DatabaseBytes = familyMemory(s.database.pid())
	}
	return nil
}

// use is what was used up to a moment; all and stolen are the machine's.
type use struct {
	server, database, all, stolen time.Duration
}

func (s *server) use() (u use, err error) {
	if u.server, err = processorTime(s.pid()); err != nil {
		return u, err
	}
	if s.database != nil {
		if u.database, err = familyTime(s.database.pid()); err != nil {
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
		if i == 0 || i > stolen { // what follows is part of others
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
	n, _ := strconv.ParseFloat(first, 64) // 0 where there is none
	return n
}

// watchWAL samples the size of the write-ahead log until the function that it
// returns is called, which returns the largest.
func watchWAL(s *server) func() int64 {
	if s.file == "" {
		return func() int64 { return 0 }
	}
	path := filepath.Join(s.dir, s.file) + "-wal"
	stop, largest := make(chan struct{}), make(chan int64)
	go func() { // ends when stop is closed
		var most int64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if info, err := os.Stat(path); err == nil {
				most = max(most, info.Size())
			}
			select {
			case <-tick.C:
			case <-stop:
				largest <- most
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-largest
	}
}
