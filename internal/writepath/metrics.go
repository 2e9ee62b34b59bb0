package writepath

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// metrics are the metrics of the write path. The server counts refused requests by error number.
type metrics struct {
	created, failed, refusedFull, refusedShare atomic.Int64 // which Numbers returns too

	replayed prometheus.Counter
	wait     prometheus.Histogram
	plants   prometheus.Histogram
	took     prometheus.Histogram
}

func newMetrics(to prometheus.Registerer, pendingPlants func() int, durability func() store.Durability) *metrics {
	seconds := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	in := promauto.With(to)
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_queue_plants",
		Help: "Plants that wait for the next commit.",
	}, func() float64 { return float64(pendingPlants()) })
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_durability_warnings",
		Help: "Reasons why an acknowledged plant may be lost; /readyz?verbose lists them.",
	}, func() float64 { return float64(len(durability().Warnings)) })
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_durability_standby",
		Help: "1 if an acknowledged plant is also on a synchronous standby.",
	}, func() float64 { return oneIf(durability().Standby) })
	m := &metrics{
		replayed: in.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_plants_replayed_total",
			Help: "Replays: creates of a plant that is already stored with the same content.",
		}),
		wait: in.NewHistogram(prometheus.HistogramOpts{
			Name:    "plantstore_queue_wait_seconds",
			Help:    "Time from the arrival of the first plant of a batch to the start of the commit.",
			Buckets: seconds,
		}),
		plants: in.NewHistogram(prometheus.HistogramOpts{
			Name:    "plantstore_commit_plants",
			Help:    "Plants in a commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
		took: in.NewHistogram(prometheus.HistogramOpts{
			Name:    "plantstore_commit_duration_seconds",
			Help:    "Duration of a commit, including the sync.",
			Buckets: seconds,
		}),
	}
	for reason, n := range m.refused() {
		in.NewCounterFunc(prometheus.CounterOpts{
			Name:        "plantstore_plants_refused_total",
			Help:        "Plants refused because the queue was full, or nearly full and the credential had its share.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 { return float64(n.Load()) })
	}
	in.NewCounterFunc(prometheus.CounterOpts{
		Name: "plantstore_plants_created_total",
		Help: "Plants that were created.",
	}, func() float64 { return float64(m.created.Load()) })
	in.NewCounterFunc(prometheus.CounterOpts{
		Name: "plantstore_commits_failed_total",
		Help: "Commits that failed or have an unknown outcome.",
	}, func() float64 { return float64(m.failed.Load()) })
	return m
}

// refused returns the counters of refused plants by reason.
func (m *metrics) refused() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{"full": &m.refusedFull, "share": &m.refusedShare}
}

// Numbers are values of the metrics of a Service.
type Numbers struct {
	Plants              int64 // in the store, an estimate on PostgreSQL; -1: unknown
	Queue               int64 // plants that wait for the next commit
	CredentialsExpiring int64 // valid credentials that expire within 7 days

	// Since the start of the process.
	Created       int64
	CommitsFailed int64            // or of unknown outcome
	Refused       map[string]int64 // plants that the queue refused, by reason
}

// Numbers returns the values now, without a call of the engine.
func (s *Service) Numbers() Numbers {
	m, refused := s.writer.metrics, map[string]int64{}
	for reason, n := range m.refused() {
		refused[reason] = n.Load()
	}
	return Numbers{
		Plants: s.credentials.plants.Load(), Queue: int64(s.writer.pendingPlants()),
		CredentialsExpiring: s.credentials.expiring(),
		Created:             m.created.Load(), CommitsFailed: m.failed.Load(), Refused: refused,
	}
}

// oneIf returns the value of a gauge that is 0 or 1.
func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// commit observes the commit of a batch that has just ended.
func (m *metrics) commit(b *pendingBatch, outcomes []store.Outcome, start time.Time, err error) {
	m.plants.Observe(float64(len(b.creates)))
	b.span().Observe(m.took, time.Since(start).Seconds())
	m.wait.Observe(start.Sub(b.creates[0].At).Seconds())
	if err != nil {
		m.failed.Add(1)
		return
	}
	m.count(outcomes)
}

// count counts the plants of a batch.
func (m *metrics) count(outcomes []store.Outcome) {
	created, replayed := 0, 0
	for _, o := range outcomes {
		switch {
		case o.Created():
			created++
		case o.Replayed:
			replayed++
		}
	}
	m.created.Add(int64(created))
	m.replayed.Add(float64(replayed))
}

// ExpiresSoon is the remaining lifetime below which a token counts as expiring.
const ExpiresSoon = 7 * 24 * time.Hour

// expiring returns the number of valid credentials that expire soon.
func (c *credentials) expiring() int64 { return int64(c.keyring.Expiring(time.Now(), ExpiresSoon)) }

// endedUsesKept is the time for which the use of an ended credential counts: a client may send plants once a day.
const endedUsesKept = 24 * time.Hour

// EndedUses returns the expired and revoked credentials that clients have sent to this process in the last 24 hours,
// the last one first.
func (s *Service) EndedUses() []auth.EndedUse {
	return s.credentials.keyring.EndedUses(time.Now().Add(-endedUsesKept))
}

// measure registers the metrics of the polled state. A scrape calls no engine, so it does not wait for a database.
func (c *credentials) measure(to prometheus.Registerer) {
	in := promauto.With(to)
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_plants",
		Help: "Plants in the store; in PostgreSQL the planner's estimate, NaN without one.",
	}, func() float64 {
		if plants := c.plants.Load(); plants >= 0 {
			return float64(plants)
		}
		return math.NaN()
	})
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_credentials_expiring",
		Help: "Valid credentials that expire within 7 days.",
	}, func() float64 { return float64(c.expiring()) })
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_credentials_ended_used",
		Help: "Expired and revoked credentials that clients have sent in the last 24 hours.",
	}, func() float64 { return float64(len(c.keyring.EndedUses(time.Now().Add(-endedUsesKept)))) })
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_store_reachable",
		Help: "1 if the store responded within the last 1.5 s; the server polls it four times a second.",
	}, func() float64 { return oneIf(!c.outage.unreachable()) })
}
