// Package syscalls makes every system call with which Plant Store keeps its
// files fail, once and for ever, and looks at what it says and at what is left.
// strace does the failing: the program is the real one.
//
// A run has the name TEST/CALL/ERROR/FILE/STORE/K, where K+ means that the
// K-th call and all after it fail; -run takes that name to do the run again.
// STORE is what the run begins with: one of the stores of store_test.go, with
// the name of the load where that is not the usual one. Runs with the store
// "clean" are in the long form alone.
// strace counts the calls of each thread by themselves, so the K-th call fails
// once in each thread that makes so many.
package syscalls

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	long  = flag.Bool("long", false, "do every K until nothing fails any more, not only the first few")
	built = flag.String("program", "", "test this `program`, which is there already; none: build it")
)

// Files of a store, as they are named in runs.
var suffixes = map[string]string{
	"db": "", "wal": "-wal", "shm": "-shm", "mark": "-mark", "serve": "-serve", "ticket": "-ticket",
}

const (
	fileDir = "dir" // the directory of the store
	fileAny = "any" // whatever the call is about
)

// row is a system call that is made to fail at each K in turn.
type row struct {
	calls string // one, or several with commas
	errno string
	file  string // of suffixes, fileDir or fileAny
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

// strace returns the command line that runs a program with the fault in it. The
// calls that it looked at are written to the file trace.
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

// failsSync says that the fault is one of the syncs with which plants are
// promised.
func (f fault) failsSync() bool {
	return f.file == "wal" && strings.Contains(f.calls, "sync")
}

// injected is what strace made fail in one run.
type injected struct {
	calls int
	first time.Time
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
		if fields := strings.Fields(lines.Text()); in.calls == 1 && len(fields) > 1 {
			seconds, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatalf("strace wrote a line without a time: %s", lines.Text())
			}
			in.first = time.UnixMicro(int64(seconds * 1e6))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return in
}

// needStrace skips a test on a machine that has no strace; where the tests must
// count, that is a failure.
func needStrace(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("strace")
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("strace is needed: %v", err)
	default:
		t.Skipf("strace is needed: %v", err)
	}
}

// shortOnce and shortForever are the K of the short form.
var shortOnce, shortForever = []int{1, 2, 3}, []int{1}

// The most K of the long form: to end a row whose calls never end, and where a
// run takes long.
const (
	kMax           = 300
	kMaxCheckpoint = 8
)

// neverForEver are calls without which a program cannot say what went wrong.
var neverForEver = map[string]bool{"write": true}

// runs counts, by call, the runs, and those in which something was made to fail.
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

// each runs a row at each K, once and for ever, until a run in which nothing
// failed, or the K that is the most. Run reports whether something did.
func (r row) each(t *testing.T, most int, run func(*testing.T, fault) bool) {
	t.Helper()
	for _, forever := range []bool{false, true} {
		ks := shortOnce
		if forever {
			ks = shortForever
		}
		if forever && neverForEver[r.calls] {
			continue
		}
		if *long {
			ks = nil
			for k := range most {
				ks = append(ks, k+1)
			}
		}
		for _, k := range ks {
			f, failed := fault{r, k, forever}, true // a run that -run leaves out does not end the row
			t.Run(f.when(), func(t *testing.T) {
				failed = false // also if run ends the test
				failed = run(t, f)
				countRun(r.calls, failed)
			})
			if !failed {
				break
			}
		}
	}
}
