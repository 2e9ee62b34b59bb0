package sqlite

import (
	"math"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/safefile"
	"plantstore/internal/store"
)

// measure registers the metrics of the file, and returns the observer of checkpoint durations in seconds.
func (e *Engine) measure(to prometheus.Registerer) prometheus.Observer {
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "plantstore_checkpoint_duration_seconds",
		Help:    "Duration of a checkpoint of the WAL.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
	size := func(name, help string, of func(*store.Sizes) int64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if n := of(e.Sizes()); n >= 0 {
				return float64(n)
			}
			return math.NaN()
		})
	}
	to.MustRegister(duration,
		size("plantstore_store_bytes", "Size of the store's file.", func(s *store.Sizes) int64 { return s.File }),
		size("plantstore_wal_bytes", "Size of the write-ahead log's file.", func(s *store.Sizes) int64 { return s.WAL }),
		size("plantstore_wal_max_bytes",
			"Size that the write-ahead log's file exceeds only while a reader blocks its checkpoint.",
			func(s *store.Sizes) int64 { return s.WALMax }),
		size("plantstore_store_disk_free_bytes", "Free bytes of the file system of the store.",
			func(s *store.Sizes) int64 { return s.DiskFree }),
	)
	return duration
}

// Sizes implements admin.Engine.
func (e *Engine) Sizes() *store.Sizes {
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0 // no WAL yet; other metrics show a removed file
		}
		return info.Size()
	}
	sizes := &store.Sizes{File: size(e.path), WAL: size(e.path + "-wal"), WALMax: walBytesMax, DiskFree: -1}
	if free, err := safefile.FreeBytes(filepath.Dir(e.path)); err == nil {
		sizes.DiskFree = free
	}
	return sizes
}
