package standby

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plantstore/client"
	"plantstore/faults/rig"
	"plantstore/internal/childtest"
	"plantstore/internal/s3/s3test"
)

// setup is how the servers of a cluster run.
type setup struct {
	bucket, sync bool
	failover     time.Duration
}

func (s setup) String() string {
	to, sync := "a directory", "without --backup-sync"
	if s.bucket {
		to = "a bucket"
	}
	if s.sync {
		sync = "with --backup-sync"
	}
	return fmt.Sprintf("%s, %s, --failover %s", to, sync, s.failover)
}

const (
	lag     = time.Second     // --backup-lag
	waitMax = 5 * time.Minute // for a server that never becomes ready
)

// cluster is two machines under load that share a destination.
type cluster struct {
	setup
	ledger
	watch
	result

	t        *testing.T
	program  string
	random   *rand.Rand
	machines [2]*machine
	to       string   // the destination, for commands
	direct   []string // runs a command with a link that has no faults
	end      context.CancelFunc
	clients  sync.WaitGroup
	watchers sync.WaitGroup
}

// machine is a store and its server.
type machine struct {
	link

	number     int
	program    string
	db         string
	url, admin string // addresses of the listeners
	before     []string
	flags      []string
	server     *rig.Server // nil: none was started since the harness ended the last one
	paused     bool
}

// newCluster starts the servers and the load.
func newCluster(t *testing.T, program string, random *rand.Rand, s setup) *cluster {
	t.Helper()
	c := &cluster{
		setup: s, t: t, program: program, random: random,
		ledger: ledger{sent: map[int64]bool{}, acks: map[int64]time.Time{}},
	}
	c.newMachines()
	token := rig.Token(t, program, c.machines[0].db, "load")
	watching, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		c.watchers.Wait()
		for _, m := range c.machines {
			if t.Failed() && m.server != nil {
				t.Logf("--- machine %d\n%s", m.number, m.server.Log())
			}
		}
	})
	for n, m := range c.machines {
		c.watchers.Go(func() { c.follow(watching, n, "http://"+m.admin) })
	}
	first := c.machines[0]
	first.launch(t)
	c.within("the first server is ready", func() bool { return !c.readyAfter(0, time.Time{}).IsZero() })
	c.settle()
	c.load(token)
	return c
}

// newMachines makes the destination, and two machines without servers.
func (c *cluster) newMachines() {
	t := c.t
	var bucket *s3test.Server
	c.to = t.TempDir()
	if c.bucket {
		var err error
		if bucket, err = s3test.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := bucket.Stop(); err != nil {
				t.Error(err)
			}
		})
		c.to, c.direct = "s3://"+s3test.Bucket, environment(bucket.Endpoint)
	}
	for n := range c.machines {
		_, addresses, err := childtest.FreeAddresses(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		m := &machine{
			number: n, program: c.program, db: filepath.Join(t.TempDir(), "plantstore.db"),
			url: addresses[0], admin: addresses[1],
		}
		to := c.to
		if c.bucket {
			var endpoint string
			m.link, endpoint = newBucketLink(t, bucket.Address)
			m.before = environment(endpoint)
		} else {
			m.link, to = newDirectoryLink(t, c.to)
		}
		m.flags = []string{
			"--listen", m.url, "--admin-listen", m.admin, "--backup-dir", to, "--backup-lag", lag.String(),
			"--failover", c.failover.String(),
		}
		if c.sync {
			m.flags = append(m.flags, "--backup-sync")
		}
		if n > 0 {
			m.flags = append(m.flags, "--standby")
		}
		c.machines[n] = m
	}
}

// environment returns the start of a command line that runs a program with the bucket at a URL.
func environment(endpoint string) []string {
	return []string{
		"env", "AWS_ENDPOINT_URL_S3=" + endpoint, "AWS_ACCESS_KEY_ID=" + s3test.AccessKey,
		"AWS_SECRET_ACCESS_KEY=" + s3test.SecretKey,
	}
}

// load starts the clients, which run until c.end. Half of them wait for the response of a paused server.
func (c *cluster) load(token string) {
	const number = 8
	ctx, cancel := context.WithCancel(c.t.Context())
	c.end = cancel
	c.t.Cleanup(c.stopLoad)
	for n := range number {
		timeout := time.Second
		if n%2 == 0 {
			timeout = time.Minute
		}
		var both [2]*client.Client
		for m := range both {
			var err error
			both[m], err = client.New("http://"+c.machines[m].url,
				client.WithToken(token), client.WithRetryFor(0), client.WithAttemptTimeout(timeout))
			if err != nil {
				c.t.Fatal(err)
			}
		}
		random := rand.New(rand.NewPCG(c.random.Uint64(), c.random.Uint64()))
		c.clients.Go(func() {
			defer both[0].Close()
			defer both[1].Close()
			c.create(ctx, both, random, c.sync)
		})
	}
}

func (c *cluster) stopLoad() {
	c.end()
	c.clients.Wait()
}

// within waits until a condition is true.
func (c *cluster) within(condition string, isTrue func() bool) {
	c.t.Helper()
	rig.Within(c.t, waitMax, 5*time.Millisecond, condition, isTrue)
}

// pause waits for a random time.
func (c *cluster) pause(longest time.Duration) {
	<-time.After(time.Duration(c.random.Int64N(int64(longest))))
}

// settle ends all faults, starts the servers that do not run, and waits until one is ready and the other follows it.
func (c *cluster) settle() (owner, standby *machine) {
	c.t.Helper()
	for _, m := range c.machines {
		m.resume()
		m.heal()
		if m.server == nil {
			m.launch(c.t)
		}
	}
	begun := time.Now()
	number := 0
	c.within("one server is ready and the other one follows it", func() (ok bool) {
		for _, m := range c.machines {
			c.restart(m)
		}
		number, ok = c.settled(begun)
		return ok
	})
	return c.machines[number], c.machines[1-number]
}

// restart starts a server that has ended by itself again, as a service manager would.
func (c *cluster) restart(m *machine) {
	const exitUsage = 2
	select {
	case <-m.server.Ended():
	default:
		return
	}
	c.exits++
	code := m.server.ExitCode()
	c.t.Logf("machine %d has ended with code %d:\n%s", m.number, code, lastLines(m.server.Log(), 5))
	if code == exitUsage || code < 0 {
		c.violate("machine %d has ended with code %d, after which no service manager starts it again:\n%s",
			m.number, code, m.server.Log())
	}
	m.launch(c.t)
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (m *machine) launch(t *testing.T) {
	t.Helper()
	m.server = rig.Launch(t, m.program, m.db, m.before, m.flags...)
}

// kill kills the server, if there is one.
func (m *machine) kill() {
	if m.server != nil {
		m.server.Kill()
		m.server, m.paused = nil, false
	}
}

// stop shuts the server down, if there is one.
func (m *machine) stop() {
	if m.server != nil {
		m.resume()
		m.server.Stop()
		m.server = nil
	}
}

// suspend pauses the server, if there is one.
func (m *machine) suspend() {
	if m.server != nil {
		m.signal(syscall.SIGSTOP)
		m.paused = true
	}
}

func (m *machine) resume() {
	if m.paused {
		m.signal(syscall.SIGCONT)
		m.paused = false
	}
}

func (m *machine) signal(s syscall.Signal) {
	_ = syscall.Kill(-m.server.Command.Process.Pid, s) // fails if the server has ended
}

// takeOvers returns how often the server has tried to take over since its start.
func (m *machine) takeOvers() int {
	return strings.Count(m.server.Log(), `"taking over from the server on `)
}

// awaitTakeOver waits until a standby takes over more often than before.
func (c *cluster) awaitTakeOver(m *machine, before int) {
	c.t.Helper()
	c.within("the standby takes over", func() bool { return m.takeOvers() > before })
}

// promote makes a standby the owner by the command.
func (c *cluster) promote(m *machine) error {
	const promoteMax = time.Minute
	ctx, cancel := context.WithTimeout(c.t.Context(), promoteMax)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.program, "promote", "--db", m.db).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promote: %w\n%s", err, out)
	}
	return nil
}
