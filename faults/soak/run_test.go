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
	begun   time.Time
	server  *rig.Server

	plan        plan
	ledger      ledger
	faults      faults
	kept, fresh *http.Client // with connections that are kept, and without

	due, missed int           // requests that there should have been; those of them that were left out; pace's alone
	busy        atomic.Int64  // requests that were answered 503
	work        chan struct{} // a request is due
	samples     []sample      // watch's alone
}

const (
	perSecond = 400
	keepers   = 16 // clients whose connections are kept
	changers  = 4  // clients that open a new one each time
)

// soak puts a program under load for a time, and returns when all is checked.
func soak(t *testing.T, program string, length time.Duration) *run {
	t.Helper()
	const answerMax = time.Minute // twice what the server allows itself
	r := &run{
		t: t, program: program, db: filepath.Join(t.TempDir(), "plants.db"), length: length,
		plan:  plan{rig.Seed(t, *seed)},
		kept:  &http.Client{Timeout: answerMax, Transport: &http.Transport{MaxIdleConnsPerHost: keepers}},
		fresh: &http.Client{Timeout: answerMax, Transport: &http.Transport{DisableKeepAlives: true}},
		work:  make(chan struct{}, perSecond/10), // more of a delay is not made up for
	}
	r.token = rig.Token(t, program, r.db, "soak")
	var err error
	r.server, err = rig.Start(t, program, r.db, nil, "--backup-dir", t.TempDir(), "--backup-every", max(length/12, 5*time.Second).String(), "--backup-keep", "2")
	if err != nil {
		t.Fatal(err)
	}
	r.begun = time.Now()
	r.load()
	r.backups()
	r.kept.CloseIdleConnections()
	if code := r.server.Stop(); code != 0 {
		r.faults.add(wrongEnd, "the server ends with %d:\n%s", code, r.server.Log())
	}
	if done := r.due - r.missed - int(r.busy.Load()); done < r.due/2 {
		r.faults.add(rate, "of %d requests that were due only %d were sent and answered", r.due, done)
	}
	r.flat()
	r.check()
	return r
}

// backups looks at those that the server made by itself.
func (r *run) backups() {
	switch seen, err := r.metrics("plantstore_backups_failed_total", "plantstore_backup_last_success_timestamp_seconds"); {
	case err != nil:
		r.faults.add(wrongAnswer, "%v", err)
	case seen[0] > 0 || seen[1] < float64(r.begun.Unix()):
		r.faults.add(failedCommand, "%.0f scheduled backups failed, the last that did not was at %.0f:\n%s", seen[0], seen[1], r.server.Log())
	}
}

// load has everybody work until the time is over, or the server.
func (r *run) load() {
	ctx, cancel := context.WithTimeout(r.t.Context(), r.length)
	defer cancel()
	var clients, beside sync.WaitGroup
	for i := range keepers + changers {
		c := &client{run: r, http: r.kept}
		if i >= keepers {
			c.http = r.fresh
		}
		clients.Go(func() {
			for range r.work {
				c.request(r.ledger.claim())
			}
		})
	}
	beside.Go(func() { r.watch(ctx) })
	beside.Go(func() { r.operate(ctx) })
	r.pace(ctx)
	cancel()
	close(r.work)
	clients.Wait()
	beside.Wait()
	r.t.Logf("%d requests in %s, %.1f a second of %d; %d more were due and left out",
		r.due-r.missed, time.Since(r.begun).Round(time.Second), float64(r.due-r.missed)/time.Since(r.begun).Seconds(), perSecond, r.missed)
}

// pace says when a request is due. One that no client is free for is left out.
func (r *run) pace(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.server.Ended():
			r.faults.add(wrongEnd, "the server ended by itself")
			return
		case <-tick.C:
		}
		for ; r.due < int(time.Since(r.begun).Seconds()*perSecond); r.due++ {
			select {
			case r.work <- struct{}{}:
			default:
				r.missed++
			}
		}
	}
}

// operate does what an operator does now and then, until ctx ends.
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
		if guest.token != "" { // it was revoked more than a second ago
			guest.refused(40104, "Bearer "+guest.token, encode(r.plan.plant(r.ledger.claim())))
		}
		name := fmt.Sprint("guest-", round)
		guest.token = strings.TrimSpace(r.command("token", "create", name, "--no-expiry"))
		guest.create(r.ledger.claim())
		r.command("token", "revoke", name)
		r.list()
		r.command("backup", backup)
		for _, path := range []string{backup, backup + ".json"} {
			if err := os.Remove(path); err != nil {
				r.faults.add(failedCommand, "after a backup: %v", err)
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
