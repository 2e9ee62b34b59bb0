package soak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// The kinds of faults, besides the names of the measures.
const (
	lost          = "acknowledged plant missing"
	altered       = "plant with other content"
	duplicated    = "plant exported twice"
	neverSent     = "plant never sent in whole"
	wrongResponse = "wrong response"
	failedCommand = "failed command"
	wrongEnd      = "end of the server"
	rate          = "rate"
)

// faults are the detected faults. They are safe for concurrent use.
type faults struct {
	mu    sync.Mutex
	count map[string]int    // by kind; guarded by mu
	first map[string]string // the first of each kind; guarded by mu
}

func (f *faults) add(kind, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count, f.first = map[string]int{}, map[string]string{}
	}
	if f.count[kind]++; f.count[kind] == 1 {
		f.first[kind] = fmt.Sprintf(format, args...)
	}
}

// of returns the first fault of a kind and the number of faults of that kind.
func (f *faults) of(kind string) (first string, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first[kind], f.count[kind]
}

func (f *faults) all() (count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.count {
		count += n
	}
	return count
}

func (f *faults) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, count := range f.count {
		t.Errorf("%s: %d times, first: %s", kind, count, f.first[kind])
	}
}

// check compares the store with the ledger, after the server ended.
func (r *run) check() {
	r.command("verify")
	var messages bytes.Buffer
	export := exec.CommandContext(r.t.Context(), r.program, "export", "--db", r.db, "--format", "jsonl")
	export.Stderr = &messages
	lines, err := export.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := export.Start(); err != nil {
		r.t.Fatal(err)
	}
	found, err := r.compare(lines)
	if err = errors.Join(err, export.Wait()); err != nil {
		r.t.Fatalf("export: %v\n%s", err, &messages)
	}
	acknowledged := 0
	for number := range r.ledger.next {
		if !r.ledger.acknowledged.has(number) {
			continue
		}
		acknowledged++
		if !found.has(number) {
			r.faults.add(lost, "plant %d", r.plan.id(number))
		}
	}
	r.t.Logf("%s; %d of them acknowledged; %d responses with 503",
		strings.TrimSpace(messages.String()), acknowledged, r.busy.Load())
}

// compare checks each plant of lines of JSON, and returns the numbers of the plants.
func (r *run) compare(lines io.Reader) (found bits, err error) {
	for plants := json.NewDecoder(lines); plants.More(); {
		var p plant
		if err := plants.Decode(&p); err != nil {
			return nil, err
		}
		number := r.plan.number(p.ID)
		switch {
		case !r.ledger.wasSent(number):
			r.faults.add(neverSent, "%s", encode(p))
			continue
		case found.has(number):
			r.faults.add(duplicated, "plant %d", p.ID)
		case encode(p) != encode(r.plan.plant(number)):
			r.faults.add(altered, "got %s, sent %s", encode(p), encode(r.plan.plant(number)))
		}
		found.set(number)
	}
	return found, nil
}

// list checks some plants while the clients create others.
func (r *run) list() {
	if _, err := r.compare(strings.NewReader(r.command("list", "--json", "--limit", "1000"))); err != nil {
		r.faults.add(failedCommand, "list: %v", err)
	}
}
