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

const etcdURL = "http://" + bridgeAddress + ":2379"

// etcd is the store in which Patroni's nodes agree on the primary. They use version 2 of its API. With version 3 the
// Patroni of Debian 12 can keep the state that it read before it was frozen, and then never sets a synchronous standby
// again (https://github.com/patroni/patroni/pull/2783).
type etcd struct {
	t       testing.TB
	dir     string
	command *exec.Cmd
	client  http.Client
}

func newEtcd(t testing.TB) *etcd {
	t.Helper()
	e := &etcd{t: t, dir: t.TempDir(), client: http.Client{Timeout: time.Second}}
	t.Cleanup(e.kill)
	e.start()
	return e
}

func (e *etcd) start() {
	e.t.Helper()
	const peerURL = "http://" + bridgeAddress + ":2380"
	e.command = exec.Command("etcd", "--enable-v2", "--data-dir", e.dir, "--log-level", "error",
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL)
	e.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.command.Start(); err != nil {
		e.t.Fatal(err)
	}
}

// sync returns the names of the primary and of its synchronous standby according to etcd; empty if they are unknown.
func (e *etcd) sync() (primary, standby string) {
	url := etcdURL + "/v2/keys/service/plants/sync"
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		e.t.Fatal(err)
	}
	response, err := e.client.Do(r)
	if err != nil {
		return "", "" // etcd may be killed
	}
	defer response.Body.Close()
	var key struct{ Node struct{ Value string } }
	var state struct {
		Leader  string
		Standby string `json:"sync_standby"`
	}
	// an invalid response leaves the names empty
	_ = errors.Join(json.NewDecoder(response.Body).Decode(&key), json.Unmarshal([]byte(key.Node.Value), &state))
	return state.Leader, state.Standby
}

func (e *etcd) kill() {
	if err := e.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		e.t.Error(err)
	}
	_ = e.command.Wait() // its result is the signal
}
