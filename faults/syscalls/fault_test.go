// Package syscalls makes each system call on the files of Plant Store fail, once and permanently, and checks the
// messages of the program and the store. strace injects the errors into the real program.
//
// A run has the name TEST/CALL/ERROR/FILE/STORE/K. K+ means that the K-th call and all later calls fail. -run with that
// name repeats the run. STORE is the prepared store of the run, see store_test.go, with the name of the load unless
// that is the usual one. Only the long form has runs with the store "clean". strace counts the calls of each thread
// separately, so the K-th call fails once in each thread that reaches it.
package syscalls

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	long  = flag.Bool("long", false, "run every K until no call fails, not only the first ones")
	built = flag.String("program", "", "test this `program` instead of building it")
)

// The files of a store by their names in runs.
var suffixes = map[string]string{
	"db": "", "wal": "-wal", "shm": "-shm", "mark": "-mark", "serve": "-serve", "ticket": "-ticket",
}

const (
	fileDir = "dir" // the directory of the store
	fileAny = "any" // any file
)

// row is a system call that fails at each K in order.
type row struct {
	calls string // a call, or several separated by commas
	errno string
	file  string // a key of suffixes, fileDir or fileAny
}

func (r row) name() string { return r.calls + "/" + r.errno + "/" + r.file }

// fault is one run of a row.
type fault struct {
	row
	k       int
	forever bool
}

func (f fault) when() string {
	if f.forever {
		return strconv.Itoa(f.k) + "+"
	}
	return strconv.Itoa(f.k)
}

// strace returns the command line that runs a program with the fault. It writes the traced calls to the file trace.
func (f fault) strace(store, db, trace string) []string {
	line := []string{
		"strace", "-f", "--seccomp-bpf", "-qq", "-ttt", "-s", "0", "-o", trace,
		"-e", "trace=" + f.calls,
		"-e", "inject=" + f.calls + ":error=" + f.errno + ":when=" + f.when(),
	}
	if store == storeRunning {
		db = armed(db)
	}
	switch f.file {
	case fileAny:
		return line
	case fileDir:
		return append(line, "-P", filepath.Dir(db))
	}
	return append(line, "-P", db+suffixes[f.file])
}

// straceFailed reports whether strace itself ended the run: on a busy machine, ptrace sometimes refuses it to wait
// for the end of a stop. Such a run shows nothing about the program, and is repeated.
func straceFailed(t *testing.T, errs string) bool {
	t.Helper()
	failed := strings.Contains(errs, "strace: ptrace(")
	if failed {
		t.Logf("strace failed: %s", reason(errs))
	}
	return failed
}

// failsSync reports whether the fault fails a sync that a commit needs.
func (f fault) failsSync() bool {
	return f.file == "wal" && strings.Contains(f.calls, "sync")
}

// injected are the errors that strace injected in one run.
type injected struct {
	calls  int
	first  time.Time // when the first call failed
	silent bool      // a write to standard error failed: strace counts the calls of each thread by itself
}

func readTrace(t *testing.T, path string) (in injected) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if !strings.HasSuffix(lines.Text(), "(INJECTED)") {
			continue
		}
		in.calls++
		in.silent = in.silent || strings.Contains(lines.Text(), " write(2, ")
		if fields := strings.Fields(lines.Text()); in.calls == 1 && len(fields) > 1 {
			seconds, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatalf("trace line without a time: %s", lines.Text())
			}
			in.first = time.UnixMicro(int64(seconds * 1e6))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return in
}

// shortOnce and shortForever are the values of K in the short form.
var shortOnce, shortForever = []int{1, 2, 3}, []int{1}

// The limits of K in the long form: of rows whose calls never end, and of long runs.
const (
	kMax           = 300
	kMaxCheckpoint = 8
)

// onceOnly are calls that a program needs to report an error.
var onceOnly = map[string]bool{"write": true}

// runs counts the runs of each call, and those with a failed call.
var runs struct {
	mu       sync.Mutex
	all, hit map[string]int // guarded by mu
}

func countRun(call string, failed bool) {
	runs.mu.Lock()
	defer runs.mu.Unlock()
	if runs.all == nil {
		runs.all, runs.hit = map[string]int{}, map[string]int{}
	}
	runs.all[call]++
	if failed {
		runs.hit[call]++
	}
}

func printRuns() {
	for _, call := range slices.Sorted(maps.Keys(runs.all)) {
		fmt.Printf("%-16s %5d runs, %5d with a failure\n", call, runs.all[call], runs.hit[call])
	}
}

// each runs a row at each K, once and permanently, up to the first run without a failed call, and at most up to kMax.
// run reports whether a call failed.
func (r row) each(t *testing.T, kMax int, run func(*testing.T, fault) bool) {
	t.Helper()
	for _, forever := range []bool{false, true} {
		ks := shortOnce
		if forever {
			ks = shortForever
		}
		if forever && onceOnly[r.calls] {
			continue
		}
		if *long {
			ks = nil
			for k := range kMax {
				ks = append(ks, k+1)
			}
		}
		for _, k := range ks {
			f, failed := fault{r, k, forever}, true // -run may exclude this run
			t.Run(f.when(), func(t *testing.T) {
				failed = false // run may end the test
				failed = run(t, f)
				countRun(r.calls, failed)
			})
			if !failed {
				break
			}
		}
	}
}
