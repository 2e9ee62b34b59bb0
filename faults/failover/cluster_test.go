package failover

import (
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
	"syscall"
	"testing"
	"time"

	"plantstore/faults/rig"
)

const (
	postgresBin = "/usr/lib/postgresql/15/bin"
	pollEvery   = 100 * time.Millisecond
	wholeMax    = 2 * time.Minute // for a cluster to be whole, with a node that is copied anew
)

// cluster is three hosts with Patroni and PostgreSQL, and an etcd.
type cluster struct {
	t     testing.TB
	nodes []*host
	etcd  *etcd
	asker http.Client // of Patroni's own API
}

// patroniYAML is a node's configuration: its name, its address, its directory
// and that of PostgreSQL's programs.
const patroniYAML = `
scope: plants
name: %[1]s
restapi:
  listen: %[2]s:8008
  connect_address: %[2]s:8008
etcd:
  host: ` + hub + `:2379
bootstrap:
  dcs:
    ttl: 10
    loop_wait: 2
    retry_timeout: 4
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters:
        wal_sender_timeout: 10s
        wal_receiver_timeout: 10s
        shared_buffers: 32MB
  initdb:
    - encoding: UTF8
    - locale: C.UTF-8
    - data-checksums
  pg_hba:
    - local all all trust
    - host all all 10.77.0.0/24 trust
    - host replication all 10.77.0.0/24 trust
postgresql:
  listen: %[2]s:5432
  connect_address: %[2]s:5432
  data_dir: %[3]s/data
  bin_dir: %[4]s
  pgpass: %[3]s/pgpass
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser:
      username: postgres
    replication:
      username: replicator
`

// newCluster starts a cluster and waits until it is whole.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, etcd: newEtcd(t), asker: http.Client{Timeout: time.Second}}
	for i, name := range []string{"a", "b", "c"} {
		h := newHost(t, name, fmt.Sprintf("10.77.0.%d", i+1))
		config := filepath.Join(h.dir, "patroni.yml")
		if err := os.WriteFile(config, fmt.Appendf(nil, patroniYAML, h.name, h.address, h.dir, postgresBin), 0o644); err != nil {
			t.Fatal(err)
		}
		h.command = []string{"patroni", config}
		c.nodes = append(c.nodes, h)
		h.start()
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, h := range c.nodes {
				t.Log(h.tail())
			}
		}
	})
	c.whole()
	c.sql(c.leader(nil), "CREATE DATABASE plants")
	rig.Within(t, wholeMax, pollEvery, "every node has the database", func() bool {
		return !slices.ContainsFunc(c.nodes, func(h *host) bool {
			_, err := c.ask(h, "plants", "SELECT 1")
			return err != nil
		})
	})
	return c
}

// says reports whether Patroni on a node answers 200 at a path
// (https://patroni.readthedocs.io/en/latest/rest_api.html).
func (c *cluster) says(h *host, path string) bool {
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+h.address+":8008"+path, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := c.asker.Do(r)
	return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// leader is the node that is the primary and is not another; nil if there is
// none.
func (c *cluster) leader(not *host) *host {
	for _, h := range c.nodes {
		if h != not && c.says(h, "/primary") {
			return h
		}
	}
	return nil
}

// others are all nodes but one.
func (c *cluster) others(than *host) (others []*host) {
	for _, h := range c.nodes {
		if h != than {
			others = append(others, h)
		}
	}
	return others
}

// url is what a server is given: all hosts.
func (c *cluster) url() string { return urlOf(c.nodes...) }

// urlOf names the database on some hosts.
func urlOf(hosts ...*host) string {
	addresses := make([]string, len(hosts))
	for i, h := range hosts {
		addresses[i] = h.address + ":5432"
	}
	return "postgres://postgres@" + strings.Join(addresses, ",") + "/plants"
}

// whole waits until there is a primary, the other nodes follow it, and one of
// them synchronously, which etcd knows: without that none may take over.
func (c *cluster) whole() {
	c.t.Helper()
	const sql = `SELECT count(DISTINCT application_name), max(application_name) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication WHERE state = 'streaming'`
	rig.Within(c.t, wholeMax, pollEvery, "all nodes follow one primary", func() bool {
		primary := c.leader(nil)
		if primary == nil {
			return false
		}
		for _, h := range c.others(primary) {
			if !c.says(h, "/replica") {
				return false
			}
		}
		state, err := c.ask(primary, "postgres", sql)
		leader, standby := c.etcd.sync()
		return err == nil && leader == primary.name && standby != "" && state == "2|"+standby
	})
}

// standby is the synchronous standby, which may become the primary.
func (c *cluster) standby() *host {
	_, name := c.etcd.sync()
	i := slices.IndexFunc(c.nodes, func(h *host) bool { return h.name == name })
	if i < 0 {
		c.t.Fatal("there is no synchronous standby")
	}
	return c.nodes[i]
}

// ask asks the PostgreSQL of a host, which may not answer at all.
func (c *cluster) ask(h *host, database, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "psql", "-XAtqc", sql, "postgres://postgres@"+h.address+":5432/"+database).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (c *cluster) sql(h *host, sql string) string {
	c.t.Helper()
	out, err := c.ask(h, "postgres", sql)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// switchover makes another node the primary, in order.
func (c *cluster) switchover(from, to *host) {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), "patronictl", "-c", filepath.Join(from.dir, "patroni.yml"), "switchover", "--leader", from.name, "--candidate", to.name, "--force", "plants")
	command.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := command.CombinedOutput(); err != nil {
		c.t.Fatalf("switchover: %v\n%s", err, out)
	}
}

const etcdURL = "http://" + hub + ":2379"

// etcd is where Patroni's nodes agree on who is the primary. They speak its
// version 2: with version 3, the Patroni of Debian 12 can keep what it read
// before it stood still, and never names a standby again
// (https://github.com/patroni/patroni/pull/2783).
type etcd struct {
	t       testing.TB
	dir     string
	command *exec.Cmd
	asker   http.Client
}

func newEtcd(t testing.TB) *etcd {
	t.Helper()
	e := &etcd{t: t, dir: t.TempDir(), asker: http.Client{Timeout: time.Second}}
	t.Cleanup(e.kill)
	e.start()
	return e
}

func (e *etcd) start() {
	e.t.Helper()
	const peers = "http://" + hub + ":2380"
	e.command = exec.Command("etcd", "--enable-v2", "--data-dir", e.dir, "--log-level", "error", "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	e.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.command.Start(); err != nil {
		e.t.Fatal(err)
	}
}

// sync is who is the primary by etcd, and who is its synchronous standby; empty
// if that is not known.
func (e *etcd) sync() (leader, standby string) {
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, etcdURL+"/v2/keys/service/plants/sync", http.NoBody)
	if err != nil {
		e.t.Fatal(err)
	}
	answer, err := e.asker.Do(r)
	if err != nil {
		return "", "" // it may be away
	}
	defer answer.Body.Close()
	var key struct{ Node struct{ Value string } }
	var state struct {
		Leader  string
		Standby string `json:"sync_standby"`
	}
	_ = errors.Join(json.NewDecoder(answer.Body).Decode(&key), json.Unmarshal([]byte(key.Node.Value), &state)) // empty then
	return state.Leader, state.Standby
}

func (e *etcd) kill() {
	if err := e.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		e.t.Error(err)
	}
	_ = e.command.Wait() // it was killed
}
