package sqlite

import (
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
)

// measure registers the metrics of the file, and returns the observer of checkpoint durations
// in seconds.
func (e *Engine) measure(to prometheus.Registerer) prometheus.Observer {
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "plantstore_checkpoint_duration_seconds",
		Help:    "Duration of a checkpoint of the WAL.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
	size := func(name, help, suffix string) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			info, err := os.Stat(e.path + suffix)
			if err != nil {
				return 0 // no WAL yet; other metrics show a removed file
			}
			return float64(info.Size())
		})
	}
	free := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_store_disk_free_bytes",
		Help: "Free bytes of the file system of the store.",
	}, func() float64 {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(filepath.Dir(e.path), &fs); err != nil {
			return math.NaN()
		}
		return float64(fs.Bavail) * float64(fs.Bsize)
	})
	bound := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "plantstore_wal_max_bytes",
		Help: "Size that the write-ahead log's file exceeds only while a reader blocks its checkpoint.",
	})
	bound.Set(walBytesMax)
	to.MustRegister(duration, free, bound,
		size("plantstore_store_bytes", "Size of the store's file.", ""),
		size("plantstore_wal_bytes", "Size of the write-ahead log's file.", "-wal"),
	)
	return duration
}
