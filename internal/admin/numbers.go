package admin

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"plantstore/internal/backup"
	"plantstore/internal/plant"
	"plantstore/internal/writepath"
)

// Numbers are values of the parts of a server, which their metrics show too. The server notices failures in them.
type Numbers struct {
	WritePath writepath.Numbers
	Backups   backup.Numbers // the zero value: the server makes none

	// Since the start of the process.
	Errors                                  map[plant.Code]int64 // responses
	ConnectionsRefused                      map[string]int64     // by listener and reason
	KeyFetchesFailed                        int64                // of the issuer's keys
	CertificatesLoaded, CertificatesRefused int64                // new files
	OrdersIssued, OrdersFailed              int64                // of certificates by ACME
	LogLinesDropped                         int64

	KeysFetched time.Time // the issuer's, the last time; zero: never
	Certificate *Validity // of TLS; nil: no TLS
}

// Validity is when the validity of the TLS certificate starts and ends; the zero value: there is no certificate yet.
type Validity struct{ Begin, End time.Time }

// counter is a counter in Numbers.
type counter int

const (
	commitsFailed counter = iota
	plantsRefused
	requestsFailed
	connectionsRefused
	keyFetchesFailed
	certificatesLoaded
	certificatesRefused
	ordersIssued
	ordersFailed
	backupsFailed
	backupsVanished
	logLinesDropped
)

// counts returns the values of the counters by their labels.
func (n *Numbers) counts() map[counter]map[string]int64 {
	failed := map[string]int64{}
	for _, e := range plant.Catalogue() {
		if e.Code.Status() >= http.StatusInternalServerError {
			failed[fmt.Sprintf("%d %s", e.Code, e.Name)] = n.Errors[e.Code]
		}
	}
	one := func(n int64) map[string]int64 { return map[string]int64{"": n} }
	return map[counter]map[string]int64{
		commitsFailed: one(n.WritePath.CommitsFailed), plantsRefused: n.WritePath.Refused,
		requestsFailed: failed, connectionsRefused: n.ConnectionsRefused, keyFetchesFailed: one(n.KeyFetchesFailed),
		certificatesLoaded: one(n.CertificatesLoaded), certificatesRefused: one(n.CertificatesRefused),
		ordersIssued: one(n.OrdersIssued), ordersFailed: one(n.OrdersFailed),
		backupsFailed: one(n.Backups.Failed), backupsVanished: one(n.Backups.Vanished),
		logLinesDropped: one(n.LogLinesDropped),
	}
}

// watched is what the server noticed in its numbers, which only show the values of now.
type watched struct {
	mu sync.Mutex // guards the fields below

	Numbers // at the last look

	risen map[counter]map[string]rises // by the labels of the counter
	since map[string]time.Time         // when the conditions that hold were noticed, by id

	standby bool   // an acknowledged plant was on a standby before
	free    []free // of the last 6 hours, one a minute, the oldest first
}

// free is the free space of the store's disk at a time.
type free struct {
	at    time.Time
	bytes float64
}

// rises are the rises of a counter, without pauses of recently.
type rises struct {
	first, last time.Time
	n           int64    // sum
	labels      []string // of the counters that rose
}

const watchEvery = 10 * time.Second

// Start notices failures in Config.Numbers until Close.
func (s *Service) Start() { s.running.Go(s.watch) }

func (s *Service) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		s.look(time.Now())
		s.Warnings(s.ctx) // so that a condition is noticed now
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look notes the numbers and the rises of the counters.
func (s *Service) look(now time.Time) {
	n, standby, sizes := s.config.Numbers(), s.engine.Durability().Standby, s.engine.Sizes() // may wait for a disk
	w := &s.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.counts()
	for c, values := range n.counts() {
		for labels, value := range values {
			if more := value - before[c][labels]; more > 0 {
				w.rise(c, labels, more, now)
			}
		}
	}
	w.Numbers, w.standby = n, w.standby || standby
	if sizes != nil {
		w.keepFree(now, OrNaN(known(sizes.DiskFree)))
	}
}

// keepFree keeps the free space of the store's disk. The caller has locked mu.
func (w *watched) keepFree(now time.Time, bytes float64) {
	const kept = 6*60 + 2
	if len(w.free) > 0 && now.Sub(w.free[len(w.free)-1].at) < time.Minute {
		return
	}
	w.free = append(w.free, free{now, bytes})
	w.free = w.free[max(0, len(w.free)-kept):]
}

// freeAt returns the free bytes of the store's disk at a time; NaN if they are unknown. The caller has locked mu.
func (w *watched) freeAt(t time.Time) float64 {
	for _, f := range slices.Backward(w.free) {
		if !f.at.After(t) {
			return f.bytes
		}
	}
	return math.NaN()
}

// rise notes that a counter has risen by n. The caller has locked mu.
func (w *watched) rise(c counter, labels string, n int64, now time.Time) {
	if w.risen[c] == nil {
		w.risen[c] = map[string]rises{}
	}
	r := w.risen[c][labels]
	if now.Sub(r.last) > recently {
		r = rises{first: now}
	}
	r.last, r.n = now, r.n+n
	w.risen[c][labels] = r
}

// rises returns the rises of a counter that continued after a time. The caller has locked mu.
func (w *watched) rises(c counter, after time.Time) (all rises) {
	for _, labels := range slices.Sorted(maps.Keys(w.risen[c])) {
		r := w.risen[c][labels]
		if !r.last.After(after) {
			continue
		}
		if all.n == 0 || r.first.Before(all.first) {
			all.first = r.first
		}
		if r.last.After(all.last) {
			all.last = r.last
		}
		all.n += r.n
		all.labels = append(all.labels, labels)
	}
	return all
}
