package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const phaseSearch = "search"

// The loads of the phase search.
const (
	loadAlone  = "without search"
	loadBeside = "with search"
)

// search measures searches of the admin API in the largest store: the time of one alone,
// and the rate of creates with and without searches.
func (b *bench) search(ctx context.Context) error {
	store, err := b.store(ctx, orderRandom, slices.Max(b.rows))
	if err != nil {
		return err
	}
	for round := b.round; round < b.round+b.rounds; round++ {
		dir, err := b.runDir()
		if err != nil {
			return err
		}
		all := []loadRun{{Phase: loadAlone}, {Phase: loadBeside}}
		if round%2 == 1 {
			slices.Reverse(all)
		}
		for i := range all {
			all[i].Set, all[i].Round, all[i].Contender, all[i].Order = setShared, round, productName, orderRandom
			all[i].Connections, all[i].Before = slices.Min(b.connections), store.rows
		}
		fault := b.searchIn(ctx, dir, store, round, all)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, r := range all {
			if fault != nil {
				r.Fault = fault.Error()
			}
			b.log.Info("measured", "phase", r.Phase, "round", r.Round, "rate", int(r.Generator.perSecond()), "fault", r.Fault)
			if err := b.save(measurement{Load: &r}); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// searchIn measures one round on a copy of the store in dir, then compares the stored
// plants with the acknowledged ones.
func (b *bench) searchIn(ctx context.Context, dir string, store generatedStore, round int, all []loadRun) error {
	s := &server{contender: *contenderNamed(productName), dir: dir}
	path := filepath.Join(dir, s.file)
	if err := store.copyTo(ctx, path); err != nil {
		return err
	}
	if err := syncDisks(ctx); err != nil {
		return err
	}
	if err := b.launch(ctx, s); err != nil {
		return err
	}
	answers, err := b.searchOn(ctx, s, round, all)
	if err := errors.Join(err, s.shutdown()); err != nil {
		return err
	}
	stored, err := countFile(ctx, path)
	if err == nil && stored < store.rows+answers {
		err = fmt.Errorf("%d plants were acknowledged, but only %d are stored", answers, stored-store.rows)
	}
	return err
}

// searchOn measures one round on a server and returns the number of acknowledged plants.
func (b *bench) searchOn(ctx context.Context, s *server, round int, all []loadRun) (answers int64, err error) {
	request, err := b.searchRequest(ctx, s)
	if err != nil {
		return 0, err
	}
	run, err := s.searchOnce(request)
	if err != nil {
		return 0, err
	}
	run.Round = round
	b.log.Info("measured", "phase", phaseSearch, "round", round, "rows", run.Rows, "millis", int(run.Millis),
		"processor", run.Processor)
	if err := b.save(measurement{Search: &run}); err != nil {
		return 0, err
	}
	for i := range all {
		r := &all[i]
		r.LoadBefore = loadAverage()
		searching, stop := context.WithCancel(ctx)
		var searches sync.WaitGroup
		if r.Phase == loadBeside {
			searches.Go(func() { // ends with stop
				for searching.Err() == nil {
					_, _ = s.searchOnce(request.WithContext(searching))
				}
			})
		}
		spec := loadSpec{round: round, connections: r.Connections, order: r.Order, time: b.duration}
		err := b.measureStream(ctx, s, "", spec, streamMeasured+i, r)
		stop()
		searches.Wait()
		if err != nil {
			return 0, err
		}
		if n := r.Generator.failures(); n > 0 {
			return 0, fmt.Errorf("%d requests failed", n)
		}
		answers += r.Generator.answers()
	}
	return answers, nil
}

// searchRequest returns the request of a search without a hit, which reads all plants.
func (b *bench) searchRequest(ctx context.Context, s *server) (*http.Request, error) {
	command := exec.CommandContext(ctx, b.program(productName), "token", "create", "searching", "--no-expiry",
		"--scope", "plants:read", "--db", filepath.Join(s.dir, s.file))
	command.Env = cleanEnviron()
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("token create: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+s.admin+"/api/v1/plants/search?name=campestre", http.NoBody)
	if err == nil {
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(out)))
	}
	return request, err
}

// searchOnce sends a search and returns its time, and the processor time of the server.
func (s *server) searchOnce(request *http.Request) (r searchRun, err error) {
	before, err := processorTime(s.pid())
	if err != nil {
		return r, err
	}
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	var last struct {
		Reason string
		Rows   int64
	}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return r, err
		}
	}
	if last.Reason != "complete" {
		return r, fmt.Errorf("the search is not complete: status %d, reason %q", response.StatusCode, last.Reason)
	}
	r.Rows, r.Millis = last.Rows, float64(time.Since(began).Microseconds())/1e3
	after, err := processorTime(s.pid())
	r.Processor = (after - before).Seconds()
	return r, err
}

func (r *results) searchTargets(t *targets) {
	times := r.searchTimes(largeStore)
	t.add("seconds of a search, 10 million plants", false, 4, times.median, times, twoDecimals, " s")
	t.addRatio("rate beside searches ÷ without, 10 million plants", true, 0.9,
		r.phase(loadBeside).ratios(r.phase(loadAlone), rate))
}

// searchTimes returns the times of the searches alone in a store of that size, in seconds.
func (r *results) searchTimes(rows int64) spread {
	var times []float64
	for _, s := range r.searches {
		if s.Rows >= rows {
			times = append(times, s.Millis/1e3)
		}
	}
	return spreadOf(times)
}

// searchTable has the searches alone, and the creates with and without searches.
func (r *results) searchTable() string {
	if len(r.searches) == 0 {
		return notMeasured
	}
	var rows, processor []float64
	for _, s := range r.searches {
		rows, processor = append(rows, float64(s.Rows)), append(processor, s.Processor)
	}
	alone := &table{}
	alone.row("search", "plants", "seconds", "processor seconds", "runs")
	alone.row("alone", spreadOf(rows).text(whole), r.searchTimes(0).text(twoDecimals),
		spreadOf(processor).text(twoDecimals), fmt.Sprint(len(r.searches)))
	beside := &table{}
	beside.row("creates", "connections", "requests a second", "÷ without", "p50 ms", "p99 ms", "valid rounds")
	without := r.phase(loadAlone)
	for _, phase := range []string{loadAlone, loadBeside} {
		runs := r.phase(phase)
		if len(runs) == 0 {
			continue
		}
		beside.row(phase, fmt.Sprint(runs[0].Connections), runs.spread(rate).text(whole),
			spreadOf(runs.ratios(without, rate)).text(twoDecimals), runs.spread(p50).text(millis),
			runs.spread(p99).text(millis), validOf(runs))
	}
	return alone.String() + "\n" + beside.String()
}
