package store

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// meters is what the write path measures. Refusals are counted at the doors,
// by the catalogue of errors.
type meters struct {
	created, replayed prometheus.Counter
	wait              prometheus.Histogram
	plants            prometheus.Histogram
	took              prometheus.Histogram
	failed            prometheus.Counter
}

func newMeters(to prometheus.Registerer, gathered func() int, durability func() Durability) *meters {
	seconds := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	m := &meters{
		created: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_plants_created_total",
			Help: "Plants that were created, each on stable storage.",
		}),
		replayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_plants_replayed_total",
			Help: "Plants that were sent again and were there already.",
		}),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "plantstore_queue_wait_seconds",
			Help:    "How long the plant of each batch that came first waited for its commit to begin.",
			Buckets: seconds,
		}),
		plants: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "plantstore_commit_plants",
			Help:    "Plants in a commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "plantstore_commit_duration_seconds",
			Help:    "How long a commit took, its sync included.",
			Buckets: seconds,
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_commits_failed_total",
			Help: "Commits that failed, or whose outcome is unknown.",
		}),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_queue_plants",
		Help: "Plants that wait for the next commit.",
	}, func() float64 { return float64(gathered()) })
	warnings := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_durability_warnings",
		Help: "Reasons why a plant that was acknowledged may be lost; /readyz?verbose has them.",
	}, func() float64 { return float64(len(durability().Warnings)) })
	standby := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_durability_standby",
		Help: "1 if a plant that was acknowledged is on a synchronous standby, too.",
	}, func() float64 {
		if durability().Standby {
			return 1
		}
		return 0
	})
	to.MustRegister(m.created, m.replayed, m.wait, m.plants, m.took, m.failed, waiting, warnings, standby)
	return m
}

// commit notes a commit that has just ended.
func (m *meters) commit(creates []Create, outcomes []Outcome, begun time.Time, err error) {
	m.plants.Observe(float64(len(creates)))
	m.took.Observe(time.Since(begun).Seconds())
	m.wait.Observe(begun.Sub(creates[0].At).Seconds())
	if err != nil {
		m.failed.Inc()
		return
	}
	created, replayed := 0, 0
	for _, o := range outcomes {
		switch {
		case o.Created():
			created++
		case o.Replayed:
			replayed++
		}
	}
	m.created.Add(float64(created))
	m.replayed.Add(float64(replayed))
}

// expiresSoon is how long before its end a credential is counted as expiring.
const expiresSoon = 7 * 24 * time.Hour

// measure registers the metrics of what the watcher has seen. Reading them
// asks the engine for nothing, so a scrape does not wait for a database.
func (c *credentials) measure(to prometheus.Registerer) {
	to.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "plantstore_plants",
			Help: "Plants in the store; in PostgreSQL the planner's estimate, NaN while it has none.",
		}, func() float64 {
			if plants := c.plants.Load(); plants >= 0 {
				return float64(plants)
			}
			return math.NaN()
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "plantstore_credentials_expiring",
			Help: "Valid credentials that expire within 7 days.",
		}, func() float64 { return float64(c.keyring.Expiring(time.Now(), expiresSoon)) }),
	)
}
