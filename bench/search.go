package main

import (
	"bufio"
	"cmp"
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

// searched are the contenders of the phase search.
var searched = []string{productName, productPGName}

// search measures searches of the admin API in the largest store, on each engine: the time of one alone,
// and the rate of creates with and without searches.
func (b *bench) search(ctx context.Context) error {
	for _, name := range searched {
		if !b.searches(name) {
			continue
		}
		rows := slices.Max(b.rows)
		store, err := b.searchedStore(ctx, name, rows)
		if err != nil {
			return err
		}
		for round := b.round; round < b.round+b.phaseRounds(); round++ {
			if err := b.searchRound(ctx, name, store, rows, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// searchedStore returns the path of the generated store of a contender: a file, or a data directory.
func (b *bench) searchedStore(ctx context.Context, name string, rows int64) (path string, err error) {
	if name == productPGName {
		return b.databaseStore(ctx, orderRandom, rows)
	}
	store, err := b.store(ctx, orderRandom, rows)
	return store.path, err
}

// searchRound measures one round and saves its measurements.
func (b *bench) searchRound(ctx context.Context, name, store string, rows int64, round int) error {
	dir, err := b.runDir()
	if err != nil {
		return err
	}
	all := []loadRun{{Phase: loadAlone}, {Phase: loadBeside}}
	if round%2 == 1 {
		slices.Reverse(all)
	}
	for i := range all {
		all[i].Set, all[i].Round, all[i].Contender, all[i].Order = setShared, round, name, orderRandom
		all[i].Connections, all[i].Before = slices.Min(b.connections), rows
	}
	fault := b.searchIn(ctx, dir, store, all)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, r := range all {
		if fault != nil {
			r.Fault = fault.Error()
		}
		b.log.Info("measured", "phase", r.Phase, "contender", r.Contender, "round", r.Round,
			"rate", int(r.Generator.perSecond()), "fault", r.Fault)
		if err := b.save(measurement{Load: &r}); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// searchIn measures one round on a copy of the store in dir, then compares the stored
// plants with the acknowledged ones.
func (b *bench) searchIn(ctx context.Context, dir, store string, all []loadRun) error {
	s := &server{contender: *contenderNamed(all[0].Contender), dir: dir}
	path := filepath.Join(dir, s.file)
	if s.file == "" {
		s.data = store
	} else if err := (generatedStore{path: store}).copyTo(ctx, path); err != nil {
		return err
	}
	if err := syncDisks(ctx); err != nil {
		return err
	}
	if err := b.launch(ctx, s); err != nil {
		return err
	}
	answers, err := b.searchOn(ctx, s, all)
	stored := int64(0)
	if err == nil && s.database != nil {
		stored, err = s.database.countRows(ctx)
	}
	if err := errors.Join(err, s.shutdown()); err != nil {
		return err
	}
	if s.database == nil {
		if stored, err = countFile(ctx, path); err != nil {
			return err
		}
	}
	if before := all[0].Before; stored < before+answers {
		err = fmt.Errorf("%d plants were acknowledged, but only %d are stored", answers, stored-before)
	}
	return err
}

// searchOn measures one round on a server and returns the number of acknowledged plants.
func (b *bench) searchOn(ctx context.Context, s *server, all []loadRun) (answers int64, err error) {
	round := all[0].Round
	request, err := b.searchRequest(ctx, s)
	if err != nil {
		return 0, err
	}
	run, err := s.searchOnce(request)
	if err != nil {
		return 0, err
	}
	run.Contender, run.Round = s.name, round
	b.log.Info("measured", "phase", phaseSearch, "contender", s.name, "round", round, "rows", run.Rows,
		"millis", int(run.Millis),
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
		"--scope", "plants:read", "--db", s.store)
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

// searchOnce sends a search and returns its time, and the processor time of the server and its database.
func (s *server) searchOnce(request *http.Request) (r searchRun, err error) {
	before, err := s.usage()
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
	after, err := s.usage()
	r.Processor = (after.server + after.database - before.server - before.database).Seconds()
	return r, err
}

func (r *results) searchTargets(t *targets) {
	for _, name := range searched {
		times := r.searchesOf(name).atLeast(largeStore).times()
		t.add("seconds of a search of "+name+", 10 million plants", false, 4, times.median, times, twoDecimals, " s")
		t.addRatio("rate of "+name+" beside searches ÷ without, 10 million plants", true, 0.9,
			r.phaseOf(loadBeside, name).ratios(r.phaseOf(loadAlone, name), rate))
	}
}

// phaseOf returns the runs of a phase of a contender.
func (r *results) phaseOf(phase, contender string) loads {
	return r.phase(phase).where(func(l loadRun) bool { return l.Contender == contender })
}

type searches []*searchRun

// searchesOf returns the searches alone of a contender.
func (r *results) searchesOf(name string) (found searches) {
	for _, s := range r.searches {
		if cmp.Or(s.Contender, productName) == name {
			found = append(found, s)
		}
	}
	return found
}

// atLeast returns the searches in a store of at least that size.
func (all searches) atLeast(rows int64) (found searches) {
	for _, s := range all {
		if s.Rows >= rows {
			found = append(found, s)
		}
	}
	return found
}

// times returns the times in seconds.
func (all searches) times() spread {
	return all.spread(func(s *searchRun) float64 { return s.Millis / 1e3 })
}

func (all searches) spread(of func(*searchRun) float64) spread {
	var values []float64
	for _, s := range all {
		values = append(values, of(s))
	}
	return spreadOf(values)
}

// searchTable has the searches alone, and the creates with and without searches.
func (r *results) searchTable() string {
	if len(r.searches) == 0 {
		return notMeasured
	}
	alone, beside := &table{}, &table{}
	alone.row("search alone", "plants", "seconds", "processor seconds")
	beside.row("creates", "connections", "requests a second", "÷ without", "p50 ms", "p99 ms")
	for _, name := range searched {
		title := contenderNamed(name).title
		if all := r.searchesOf(name); len(all) > 0 {
			alone.row(title, all.spread(func(s *searchRun) float64 { return float64(s.Rows) }).text(whole),
				all.times().text(twoDecimals), all.spread(func(s *searchRun) float64 { return s.Processor }).text(twoDecimals))
		}
		without := r.phaseOf(loadAlone, name)
		for _, phase := range []string{loadAlone, loadBeside} {
			runs := r.phaseOf(phase, name)
			if len(runs) == 0 {
				continue
			}
			beside.row(title+" "+phase, fmt.Sprint(runs[0].Connections), runs.spread(rate).text(whole),
				spreadOf(runs.ratios(without, rate)).text(twoDecimals), runs.spread(p50).medianText(millis),
				runs.spread(p99).text(millis))
		}
	}
	return alone.String() + "\n" + beside.String()
}
