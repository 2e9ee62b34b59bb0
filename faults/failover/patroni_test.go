package failover

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// TestPatroni runs kinds on a cluster with Patroni and etcd.
func TestPatroni(t *testing.T) {
	requireHosts(t, patroniFiles)
	p := newPatroni(t)
	kinds := withKinds(map[string]kind{"etcd": func(b *testbed) time.Duration { return b.killEtcd(p.etcd) }})
	runKinds(t, newCluster(t, p), kinds, 5)
}

// patroniFiles are the files that Patroni needs, with their packages.
var patroniFiles = map[string]string{
	"/usr/bin/patroni":                    "patroni",
	"/usr/lib/python3/dist-packages/etcd": "python3-etcd",
	"/usr/bin/etcd":                       "etcd-server",
}

// killEtcd kills etcd. The primary must step down, and no plant may be acknowledged until etcd has started again.
func (b *testbed) killEtcd(e *etcd) time.Duration {
	b.t.Helper()
	e.kill()
	rig.Within(b.t, downtimeMax, pollEvery, "the primary has stepped down", func() bool {
		for _, h := range b.nodes() {
			if standby, err := b.query(h, "postgres", "SELECT pg_is_in_recovery()"); err == nil && standby != "t" {
				return false
			}
		}
		return true
	})
	b.checkNoWrites("without etcd")
	started := time.Now()
	e.start()
	b.waitStored(b.t, started)
	return b.downtime(started)
}

// patroniYAML is the configuration of a node. Its arguments are the name and the address of the node, its directory and
// that of PostgreSQL's programs.
const patroniYAML = `
scope: plants
name: %[1]s
restapi:
  listen: %[2]s:8008
  connect_address: %[2]s:8008
etcd:
  host: ` + bridgeAddress + `:2379
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

// patroni is Patroni on three hosts in synchronous strict mode, and etcd.
type patroni struct {
	t      testing.TB
	hosts  []*host
	etcd   *etcd
	client http.Client // for Patroni's API
}

func newPatroni(t testing.TB) *patroni {
	t.Helper()
	p := &patroni{t: t, etcd: newEtcd(t), client: http.Client{Timeout: time.Second}}
	for i, name := range nodeNames {
		h := newHost(t, name, nodeAddress(i))
		config := fmt.Appendf(nil, patroniYAML, h.name, h.address, h.dir, postgresBin)
		if err := os.WriteFile(p.configFile(h), config, 0o644); err != nil {
			t.Fatal(err)
		}
		h.command = []string{"patroni", p.configFile(h)}
		p.hosts = append(p.hosts, h)
		h.start()
	}
	return p
}

func (p *patroni) configFile(h *host) string { return filepath.Join(h.dir, "patroni.yml") }

// returnsOK reports whether Patroni on a node responds with 200 at a path
// (https://patroni.readthedocs.io/en/latest/rest_api.html).
func (p *patroni) returnsOK(h *host, path string) bool {
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+h.address+":8008"+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := p.client.Do(r)
	return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// nodes implements manager.
func (p *patroni) nodes() []*host { return p.hosts }

// isPrimary implements manager.
func (p *patroni) isPrimary(h *host) bool { return p.returnsOK(h, "/primary") }

// canFailOver implements manager. Patroni promotes only the synchronous standby that etcd names.
func (p *patroni) canFailOver(primary *host, synchronous []string) bool {
	for _, h := range p.hosts {
		if h != primary && !p.returnsOK(h, "/replica") {
			return false
		}
	}
	leader, standby := p.etcd.sync()
	return leader == primary.name && slices.Equal(synchronous, []string{standby})
}

// switchover implements manager.
func (p *patroni) switchover(primary *host) error {
	_, standby := p.etcd.sync()
	command := exec.CommandContext(p.t.Context(), "patronictl", "-c", p.configFile(primary), "switchover",
		"--leader", primary.name, "--candidate", standby, "--force", "plants")
	command.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("patronictl switchover: %w: %s", err, out)
	}
	return nil
}
