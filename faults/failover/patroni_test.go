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

// TestPatroni tries kinds on a cluster with Patroni and an etcd.
func TestPatroni(t *testing.T) {
	needHosts(t, patroniFiles)
	p := newPatroni(t)
	kinds := withKinds(map[string]kind{"etcd": func(r *trial) time.Duration { return r.loseEtcd(p.etcd) }})
	tryKinds(t, newCluster(t, p), kinds, 5)
}

// patroniFiles are what Patroni needs, and the packages they are in.
var patroniFiles = map[string]string{"/usr/bin/patroni": "patroni", "/usr/lib/python3/dist-packages/etcd": "python3-etcd", "/usr/bin/etcd": "etcd-server"}

// loseEtcd takes etcd away: the primary steps down, and nothing may be acknowledged
// until it is back.
func (r *trial) loseEtcd(e *etcd) time.Duration {
	r.t.Helper()
	e.kill()
	rig.Within(r.t, goOnMax, pollEvery, "the primary has stepped down", func() bool {
		for _, h := range r.nodes() {
			if standby, err := r.ask(h, "postgres", "SELECT pg_is_in_recovery()"); err == nil && standby != "t" {
				return false
			}
		}
		return true
	})
	r.standsStill("without etcd")
	back := time.Now()
	e.start()
	r.goesOn(r.t, back)
	return r.standstill(back)
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

// patroni is Patroni on three hosts, in synchronous strict mode, and an etcd.
type patroni struct {
	t     testing.TB
	hosts []*host
	etcd  *etcd
	asker http.Client // of Patroni's own API
}

func newPatroni(t testing.TB) *patroni {
	t.Helper()
	p := &patroni{t: t, etcd: newEtcd(t), asker: http.Client{Timeout: time.Second}}
	for i, name := range nodeNames {
		h := newHost(t, name, nodeAddress(i))
		if err := os.WriteFile(p.config(h), fmt.Appendf(nil, patroniYAML, h.name, h.address, h.dir, postgresBin), 0o644); err != nil {
			t.Fatal(err)
		}
		h.command = []string{"patroni", p.config(h)}
		p.hosts = append(p.hosts, h)
		h.start()
	}
	return p
}

func (p *patroni) config(h *host) string { return filepath.Join(h.dir, "patroni.yml") }

// says reports whether Patroni on a node answers 200 at a path
// (https://patroni.readthedocs.io/en/latest/rest_api.html).
func (p *patroni) says(h *host, path string) bool {
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+h.address+":8008"+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.asker.Do(r)
	return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// nodes implements manager.
func (p *patroni) nodes() []*host { return p.hosts }

// leads implements manager.
func (p *patroni) leads(h *host) bool { return p.says(h, "/primary") }

// ready implements manager: etcd knows who of the standbys is the synchronous
// one; without that none may take over.
func (p *patroni) ready(primary *host, synchronous []string) bool {
	for _, h := range p.hosts {
		if h != primary && !p.says(h, "/replica") {
			return false
		}
	}
	leader, standby := p.etcd.sync()
	return leader == primary.name && slices.Equal(synchronous, []string{standby})
}

// switchover implements manager.
func (p *patroni) switchover(primary *host) error {
	_, standby := p.etcd.sync()
	command := exec.CommandContext(p.t.Context(), "patronictl", "-c", p.config(primary), "switchover", "--leader", primary.name, "--candidate", standby, "--force", "plants")
	command.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("patronictl switchover: %w: %s", err, out)
	}
	return nil
}
