package backup

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/safefile"
)

// Numbers are values of the metrics of a Service.
type Numbers struct {
	Failed, Vanished int64  // scheduled backups that failed, and backups that vanished, since the start of the process
	DiskFree         *int64 // bytes of the file system of the directory; nil: unknown, or the destination is a bucket

	// Zero without Config.Lag.
	CopyLag  time.Duration // since the destination had all commits
	Segments int64         // in the destination, when the last merge began
	MergeLag time.Duration // for which merges of segments run or fail; 0 after one has succeeded
}

// Numbers returns the values now. It asks the file system of a directory.
func (s *Service) Numbers() Numbers {
	n := Numbers{Failed: s.failed.Load(), Vanished: s.vanished.Load()}
	if d, ok := s.to.(*directory); ok {
		if free, err := safefile.FreeBytes(d.path); err == nil {
			n.DiskFree = &free
		}
	}
	if s.copier == nil {
		return n
	}
	n.CopyLag = time.Since(s.copier.copiedTo())
	s.mu.Lock()
	defer s.mu.Unlock()
	n.Segments = s.merging.segments
	if !s.merging.since.IsZero() {
		n.MergeLag = time.Since(s.merging.since)
	}
	return n
}

// measure registers the metrics that Numbers has.
func (s *Service) measure(registerer prometheus.Registerer) {
	to := promauto.With(registerer)
	registerer.MustRegister(s.last, s.notRemoved)
	counter := func(name, help string, n *atomic.Int64) {
		to.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(n.Load()) })
	}
	gauge := func(name, help string, of func(Numbers) float64) {
		to.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return of(s.Numbers()) })
	}
	counter("plantstore_backups_failed_total", "Scheduled backups that failed.", &s.failed)
	counter("plantstore_backups_vanished_total",
		"Backups that are no longer in the destination, although this server has not removed them.", &s.vanished)
	if _, ok := s.to.(*directory); ok {
		gauge("plantstore_backup_disk_free_bytes", "Free bytes of the file system of the backup directory.",
			func(n Numbers) float64 {
				if n.DiskFree == nil {
					return math.NaN()
				}
				return float64(*n.DiskFree)
			})
	}
	if s.copier == nil {
		return
	}
	gauge("plantstore_copy_lag_seconds", "Time since the destination of the backups had all commits.",
		func(n Numbers) float64 { return n.CopyLag.Seconds() })
	gauge("plantstore_copy_segments", "Segments in the destination of the backups, when the last merge began.",
		func(n Numbers) float64 { return float64(n.Segments) })
	gauge("plantstore_copy_merge_lag_seconds",
		"Time for which merges of segments run or fail; 0 after one has succeeded.",
		func(n Numbers) float64 { return n.MergeLag.Seconds() })
}
