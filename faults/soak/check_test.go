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
	lost          = "acknowledged, and not there"
	altered       = "there with other content"
	doubled       = "there twice"
	neverSent     = "there, and never sent whole"
	wrongAnswer   = "another answer"
	failedCommand = "a command that failed"
	wrongEnd      = "the end of the server"
	rate          = "the rate"
)

// faults are what was found. They are safe for concurrent use.
type faults struct {
	mu    sync.Mutex
	count map[string]int    // by kind; guarded by mu
	first map[string]string // of each kind; guarded by mu
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

// of returns the first fault of a kind, and how many there are.
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

// check compares the store, which is not served any more, with the ledger.
func (r *run) check() {
	r.command("verify")
	var said bytes.Buffer
	export := exec.CommandContext(r.t.Context(), r.program, "export", "--db", r.db, "--format", "jsonl")
	export.Stderr = &said
	lines, err := export.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := export.Start(); err != nil {
		r.t.Fatal(err)
	}
	found, err := r.compare(lines)
	if err = errors.Join(err, export.Wait()); err != nil {
		r.t.Fatalf("export: %v\n%s", err, &said)
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
	r.t.Logf("%s; %d of them acknowledged; %d times unavailable", strings.TrimSpace(said.String()), acknowledged, r.busy.Load())
}

// compare notes what is wrong with each plant in lines of JSON, and returns the
// numbers of those that are there.
func (r *run) compare(lines io.Reader) (found bits, err error) {
	for plants := json.NewDecoder(lines); plants.More(); {
		var p plant
		if err := plants.Decode(&p); err != nil {
			return nil, err
		}
		number := r.plan.number(p.ID)
		switch {
		case !r.ledger.maySee(number):
			r.faults.add(neverSent, "%s", encode(p))
			continue
		case found.has(number):
			r.faults.add(doubled, "plant %d", p.ID)
		case encode(p) != encode(r.plan.plant(number)):
			r.faults.add(altered, "%s, and %s was sent", encode(p), encode(r.plan.plant(number)))
		}
		found.set(number)
	}
	return found, nil
}

// list looks at some plants while others are stored.
func (r *run) list() {
	if _, err := r.compare(strings.NewReader(r.command("list", "--json", "--limit", "1000"))); err != nil {
		r.faults.add(failedCommand, "list: %v", err)
	}
}
