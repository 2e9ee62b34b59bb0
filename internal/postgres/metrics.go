package postgres

import (
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/store"
)

// Sizes implements admin.Engine: the database has files of its own.
func (e *Engine) Sizes() *store.Sizes { return nil }

// measure registers the metrics of the connection pool. A scrape does not wait for the database.
func (e *Engine) measure(to prometheus.Registerer) {
	to.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "plantstore_database_connections_in_use",
			Help: "Connections to the database that a transaction or query uses.",
		}, func() float64 { return float64(e.pool.Stat().AcquiredConns()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "plantstore_database_connections_max",
			Help: "Connections to the database that may be open at the same time.",
		}, func() float64 { return float64(e.pool.Stat().MaxConns()) }),
	)
}
