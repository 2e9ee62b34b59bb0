package admin

import (
	"math"
	"strings"
)

// Gauges are sizes and numbers of a server and its store; nil: unknown.
type Gauges struct {
	Plants        *int64 `json:"plants,omitempty"` // an estimate on PostgreSQL
	QueuePlants   int64  `json:"queue_plants"`     // plants that wait for the next commit
	StoreBytes    *int64 `json:"store_bytes,omitempty"`
	WALBytes      *int64 `json:"wal_bytes,omitempty"`       // nil on PostgreSQL
	WALMaxBytes   *int64 `json:"-"`                         // a larger WAL means that a reader blocks the checkpoint
	DiskFreeBytes *int64 `json:"disk_free_bytes,omitempty"` // nil on PostgreSQL

	Connections         map[string]int64 `json:"connections"`          // open connections by listener
	CredentialsExpiring int64            `json:"credentials_expiring"` // valid credentials that expire within 7 days
}

// Metrics are values of the metrics of a server. Counters start with the process.
type Metrics struct {
	Gauges

	Created                    float64 // plants
	CommitsFailed              float64
	ServerErrors, ClientErrors float64            // responses of the public listener with a status 5xx and 4xx
	Errors                     map[string]float64 // responses with 5xx by the number and the name of the error
	Latency                    []Bucket           // of creates, ascending
}

// Bucket is a bucket of a histogram: the number of values up to and including a bound in seconds.
type Bucket struct{ Bound, Count float64 }

// Metrics returns the values of the metrics. If some cannot be read, it returns the rest.
func (s *Service) Metrics() Metrics {
	m := Metrics{Gauges: Gauges{Connections: map[string]int64{}}, Errors: map[string]float64{}}
	if s.config.Metrics == nil {
		return m
	}
	families, err := s.config.Metrics.Gather()
	if err != nil {
		s.log.Debug("could not read all metrics", "error", err)
	}
	optional := map[string]**int64{
		"plantstore_plants": &m.Plants, "plantstore_store_bytes": &m.StoreBytes, "plantstore_wal_bytes": &m.WALBytes,
		"plantstore_wal_max_bytes": &m.WALMaxBytes, "plantstore_store_disk_free_bytes": &m.DiskFreeBytes,
	}
	counts := map[string]*int64{
		"plantstore_queue_plants": &m.QueuePlants, "plantstore_credentials_expiring": &m.CredentialsExpiring,
	}
	for _, family := range families {
		name := family.GetName()
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			public, status := labels["listener"] == "public", labels["status"]
			gauge, counter := metric.GetGauge().GetValue(), metric.GetCounter().GetValue()
			n := int64(gauge)
			switch {
			case math.IsNaN(gauge):
			case optional[name] != nil:
				*optional[name] = &n
			case counts[name] != nil:
				*counts[name] = n
			case name == "plantstore_connections_open":
				m.Connections[labels["listener"]] = n
			case name == "plantstore_plants_created_total":
				m.Created = counter
			case name == "plantstore_commits_failed_total":
				m.CommitsFailed = counter
			case name == "plantstore_http_errors_total" && strings.HasPrefix(labels["error"], "5"):
				m.Errors[labels["error"]+" "+labels["name"]] = counter
			case name == "plantstore_http_requests_total" && public && strings.HasPrefix(status, "5"):
				m.ServerErrors += counter
			case name == "plantstore_http_requests_total" && public && strings.HasPrefix(status, "4"):
				m.ClientErrors += counter
			case name == "plantstore_http_request_duration_seconds" && public && strings.HasSuffix(labels["route"], "/plants"):
				for _, b := range metric.GetHistogram().GetBucket() {
					m.Latency = append(m.Latency, Bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
				}
				m.Latency = append(m.Latency, Bucket{math.Inf(1), float64(metric.GetHistogram().GetSampleCount())})
			}
		}
	}
	return m
}
