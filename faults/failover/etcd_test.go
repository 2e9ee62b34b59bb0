package failover

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

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
