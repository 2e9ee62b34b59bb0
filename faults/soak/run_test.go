package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// run is one server under its load.
type run struct {
	t       *testing.T
	program string
	db      string
	token   string
	length  time.Duration
	started time.Time
	server  *rig.Server

	plan       plan
	ledger     ledger
	faults     faults
	persistent *http.Client // reuses connections
	fresh      *http.Client // opens a connection for each request

	due, skipped int           // requests that were due, and those of them that were skipped; only pace changes them
	busy         atomic.Int64  // requests with the response 503
	work         chan struct{} // has an element for each due request
	samples      []sample      // only watch appends
}

const (
	perSecond         = 400
	persistentClients = 16
	freshClients      = 4
)

// soak runs a program under load for a time and checks it.
func soak(t *testing.T, program string, length time.Duration) *run {
	t.Helper()
	const responseTimeMax = time.Minute // twice the limit of the server
	r := &run{
		t: t, program: program, db: filepath.Join(t.TempDir(), "plants.db"), length: length,
		plan: plan{rig.Seed(t, *seed)},
		persistent: &http.Client{
			Timeout: responseTimeMax, Transport: &http.Transport{MaxIdleConnsPerHost: persistentClients},
		},
		fresh: &http.Client{Timeout: responseTimeMax, Transport: &http.Transport{DisableKeepAlives: true}},
		work:  make(chan struct{}, perSecond/10), // requests that are due for longer are skipped
	}
	r.token = rig.Token(t, program, r.db, "soak")
	var err error
	backupEvery := max(length/12, 5*time.Second).String()
	r.server, err = rig.Start(t, program, r.db, nil, "--auth-failures", "0",
		"--backup-dir", t.TempDir(), "--backup-every", backupEvery, "--backup-keep", "2")
	if err != nil {
		t.Fatal(err)
	}
	r.started = time.Now()
	r.load()
	r.backups()
	r.persistent.CloseIdleConnections()
	if code := r.server.Stop(); code != 0 {
		r.faults.add(wrongEnd, "the server ended with code %d:\n%s", code, r.server.Log())
	}
	if *long {
		if done := r.due - r.skipped - int(r.busy.Load()); done < r.due/2 {
			r.faults.add(rate, "%d requests were due, and only %d were sent and got a response", r.due, done)
		}
		r.checkGrowth()
	}
	r.check()
	return r
}

// backups checks the metrics of the scheduled backups.
func (r *run) backups() {
	const failed, lastSuccess = "plantstore_backups_failed_total", "plantstore_backup_last_success_timestamp_seconds"
	switch values, err := r.metrics(failed, lastSuccess); {
	case err != nil:
		r.faults.add(wrongResponse, "%v", err)
	case values[0] > 0 || values[1] < float64(r.started.Unix()):
		r.faults.add(failedCommand, "%.0f scheduled backups failed; the last success was at %.0f:\n%s",
			values[0], values[1], r.server.Log())
	}
}

// load runs the clients and the commands until the time is over or the server ends.
func (r *run) load() {
	ctx, cancel := context.WithTimeout(r.t.Context(), r.length)
	defer cancel()
	var clients, others sync.WaitGroup
	for i := range persistentClients + freshClients {
		c := &client{run: r, http: r.persistent}
		if i >= persistentClients {
			c.http = r.fresh
		}
		clients.Go(func() {
			for range r.work {
				c.request(r.ledger.claim())
			}
		})
	}
	others.Go(func() { r.watch(ctx) })
	others.Go(func() { r.operate(ctx) })
	r.pace(ctx)
	cancel()
	close(r.work)
	clients.Wait()
	others.Wait()
	sent, took := r.due-r.skipped, time.Since(r.started)
	r.t.Logf("%d requests in %s, %.1f of %d a second; %d more were due and skipped",
		sent, took.Round(time.Second), float64(sent)/took.Seconds(), perSecond, r.skipped)
}

// pace makes requests due. It skips a request if no client is free for it.
func (r *run) pace(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.server.Ended():
			r.faults.add(wrongEnd, "the server ended during the run")
			return
		case <-tick.C:
		}
		for ; r.due < int(time.Since(r.started).Seconds()*perSecond); r.due++ {
			select {
			case r.work <- struct{}{}:
			default:
				r.skipped++
			}
		}
	}
}

// operate runs an operator's commands regularly until ctx ends.
func (r *run) operate(ctx context.Context) {
	tick := time.NewTicker(max(r.length/40, 2*time.Second))
	defer tick.Stop()
	guest := &client{run: r, http: r.fresh}
	backup := filepath.Join(r.t.TempDir(), "backup.db")
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if guest.token != "" { // revoked more than a second ago
			guest.refused(40102, "Bearer "+guest.token, encode(r.plan.plant(r.ledger.claim())))
		}
		name := fmt.Sprint("guest-", round)
		guest.token = strings.TrimSpace(r.command("token", "create", name, "--no-expiry"))
		guest.create(r.ledger.claim())
		r.command("token", "revoke", name)
		r.list()
		r.command("backup", backup)
		for _, path := range []string{backup, backup + ".json"} {
			if err := os.Remove(path); err != nil {
				r.faults.add(failedCommand, "remove a backup: %v", err)
			}
		}
	}
}

// command runs a command of the program on the store, and returns its output.
func (r *run) command(args ...string) string {
	out, err := exec.CommandContext(r.t.Context(), r.program, append(args, "--db", r.db)...).Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.faults.add(failedCommand, "%v: %v\n%s", args, err, exit.Stderr)
	case err != nil:
		r.faults.add(failedCommand, "%v: %v", args, err)
	}
	return string(out)
}
