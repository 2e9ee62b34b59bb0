package sqlite

import (
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
)

// measure registers the metrics of the file, and returns what observes the
// seconds of a checkpoint.
func (e *Engine) measure(to prometheus.Registerer) prometheus.Observer {
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "plantstore_checkpoint_duration_seconds",
		Help:    "How long a checkpoint of the WAL took.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
	size := func(name, help, suffix string) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			info, err := os.Stat(e.path + suffix)
			if err != nil {
				return 0 // no WAL yet; a file that is gone shows elsewhere
			}
			return float64(info.Size())
		})
	}
	free := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_store_disk_free_bytes",
		Help: "Bytes that the store can still use of the file system that it lies on.",
	}, func() float64 {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(filepath.Dir(e.path), &fs); err != nil {
			return math.NaN()
		}
		return float64(fs.Bavail) * float64(fs.Bsize)
	})
	to.MustRegister(took, free,
		size("plantstore_store_bytes", "Size of the store's file.", ""),
		size("plantstore_wal_bytes", "Size of the write-ahead log's file.", "-wal"),
	)
	return took
}
