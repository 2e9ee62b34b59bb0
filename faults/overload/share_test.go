package overload

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"plantstore/faults/rig"
)

// selfish lets one credential fill the whole queue.
var selfish = rig.Weakness{
	File: "internal/writepath/share.go",
	Old:  "\tif len(b.creates) < sharePerFree*freePlants && b.bytes < sharePerFree*freeBytes {\n",
	New:  "\tif freePlants >= 0 || freeBytes >= 0 {\n",
}

// TestShareControl shows that the check of TestShare detects a queue without shares.
func TestShareControl(t *testing.T) {
	t.Parallel()
	if faults := besideGreed(t, rig.Build(t, small, selfish)); len(faults) == 0 {
		t.Error("selfish: not detected")
	}
}

// TestShare runs a modest client beside a credential with hundreds of connections. The server refuses plants of the
// greedy credential and none of the modest one.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, fault := range besideGreed(t, rig.Build(t, small)) {
		t.Error(fault)
	}
}

// besideGreed returns the faults of the modest client's responses.
func besideGreed(t *testing.T, program string) (faults []string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "plants.db")
	greedy, modest := rig.Token(t, program, db, "greedy"), rig.Token(t, program, db, "modest")
	server, err := rig.Start(t, program, db, nil, "--log-level", "info")
	if err != nil {
		t.Fatal(err)
	}
	const clients, plants = 200, 50
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	stop := make(chan struct{})
	var mu sync.Mutex
	refused := 0 // plants of the greedy credential; guarded by mu
	var greed sync.WaitGroup
	for n := range int64(clients) {
		greed.Go(func() {
			for id := n; ; id += clients {
				select {
				case <-stop:
					return
				default:
				}
				status, _, err := postWith(t.Context(), client, server.URL, greedy, id)
				if err == nil && status == http.StatusServiceUnavailable {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
		})
	}
	for id := range int64(plants) {
		status, _, err := post(t.Context(), server.URL, modest, -1-id)
		if err != nil || status != http.StatusOK {
			faults = append(faults, fmt.Sprintf("the modest credential, plant %d: %d, %v", id, status, err))
		}
	}
	close(stop)
	greed.Wait()
	client.CloseIdleConnections()
	t.Logf("refused: %d of the greedy credential, %d of %d of the modest one", refused, len(faults), plants)
	if refused == 0 {
		t.Error("the greedy credential did not fill the queue")
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	return faults
}
