package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/faults/rig"
)

// TestCitusWorkers kills workers of a Citus cluster under load and restarts them.
func TestCitusWorkers(t *testing.T) {
	requireCitus(t)
	if err := joinFirst(newCitus(t, build(t)).runWorkerKills(t, size(3, 30))); err != nil {
		t.Error(err)
	}
}

// TestCitusWorkersControl shows that the harness detects lost plants.
func TestCitusWorkersControl(t *testing.T) {
	requireCitus(t)
	requireDetection(t, newCitus(t, rig.Build(t, unknownIsSuccess)).runWorkerKills(t, 3))
}

// citus is servers on a Citus cluster whose workers run on this machine.
type citus struct {
	*cluster
	coordinator *pgx.Conn
	workers     []*worker
}

// worker is a PostgreSQL server of the cluster. Its end removes its processes, not its files.
type worker struct {
	port int
	dir  string
}

// requireCitus skips a test without a cluster.
func requireCitus(t *testing.T) {
	t.Helper()
	if rig.Citus == "" {
		t.Skip("no Citus: set " + rig.CitusVariable + " to the URL of a database with the extension")
	}
}

// newCitus starts servers on a new store of the cluster in rig.Citus.
func newCitus(t *testing.T, program string) *citus {
	t.Helper()
	coordinator, err := pgx.Connect(t.Context(), rig.Citus)
	if err != nil {
		t.Fatal(err)
	}
	c := &citus{coordinator: coordinator}
	schema := fmt.Sprint("replicas", time.Now().UnixNano())
	c.execute(t, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { // after the end of the servers
		ctx := context.WithoutCancel(t.Context())
		_, err := coordinator.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
		if err := errors.Join(err, coordinator.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(rig.Citus)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	rig.Token(t, program, u.String(), "tables")
	c.execute(t, "SELECT create_distributed_table('"+schema+".plants', 'id', shard_count => 32)")
	c.findWorkers(t)
	c.cluster = newClusterOn(t, program, u.String())
	return c
}

func (c *citus) execute(t *testing.T, sql string) {
	t.Helper()
	if _, err := c.coordinator.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// findWorkers sets the workers. A worker on another machine skips the test.
func (c *citus) findWorkers(t *testing.T) {
	t.Helper()
	const sql = `SELECT nodeport, result FROM run_command_on_workers('SHOW data_directory')`
	rows, _ := c.coordinator.Query(t.Context(), sql) // ForEachRow returns the error
	var port int
	var dir string
	_, err := pgx.ForEachRow(rows, []any{&port, &dir}, func() error {
		c.workers = append(c.workers, &worker{port, dir})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.workers {
		if _, err := os.Stat(filepath.Join(w.dir, "postmaster.opts")); err != nil {
			t.Skipf("the worker on port %d does not run on this machine, or under another user: %v", w.port, err)
		}
	}
}

// runWorkerKills kills random workers under load, and returns the violations.
func (c *citus) runWorkerKills(t *testing.T, kills int) (violations []error) {
	t.Helper()
	s := rig.Seed(t, *seed)
	random := rand.New(rand.NewPCG(s, 0))
	for _, r := range c.replicas {
		r.setEnded(false) // requests may fail while a worker is down
	}
	l := startLoad(t.Context(), s, c.cluster)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range kills {
		<-tick.C
		w := c.workers[random.IntN(len(c.workers))]
		w.kill(t)
		w.start(t)
		c.recover(t)
		// a random interval, so that kills hit every phase of a commit
		tick.Reset(time.Second/2 + time.Duration(random.Int64N(int64(time.Second))))
	}
	l.stop()
	stored := storedPlants(t, c.db)
	violations = slices.Concat(l.violations, check(l.history, stored), c.checkAgreement(t, stored))
	t.Logf("%d kills of workers, outcomes %v; %d requests, %d plants, %d violations",
		kills, countOutcomes(l.history), len(l.history), len(stored), len(violations))
	return violations
}

// recover completes the transactions that a worker prepared before its end. Citus does that each minute. It
// repeats a failed call: the coordinator finds only by it that connections to the worker have ended.
func (c *citus) recover(t *testing.T) {
	t.Helper()
	var err error
	for range 10 {
		if _, err = c.coordinator.Exec(t.Context(), "SELECT recover_prepared_transactions()"); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// kill kills the worker with all its processes.
func (w *worker) kill(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	main, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range append([]int{main}, childrenOf(main)...) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // a child may have ended with its connection
	}
	rig.Within(t, time.Minute, 10*time.Millisecond, "the killed worker has ended",
		func() bool { return syscall.Kill(main, 0) != nil })
}

// childrenOf returns the processes of a PostgreSQL server.
func childrenOf(parent int) (children []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				children = append(children, pid)
			}
		}
	}
	return children
}

// start starts the worker with its last arguments and waits until it accepts connections.
func (w *worker) start(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "postmaster.opts"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	args, program := strings.Fields(strings.ReplaceAll(string(text), `"`, "")), ""
	program, args = args[0], args[1:]
	options := slices.DeleteFunc(args, func(a string) bool { return a == "-D" || a == w.dir })
	command := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(program), "pg_ctl"), "start", "-w",
		"-D", w.dir, "-l", filepath.Join(w.dir, "restarted.log"), "-o", strings.Join(options, " "))
	command.Dir = "/"
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("start the worker on port %d: %v\n%s", w.port, err, out)
	}
}
