package main

import "time"

const rawName = "raw.jsonl"

// record is one line of the raw rounds. Exactly one member beside At is set.
type record struct {
	At      time.Time     `json:"at"`
	Machine *machine      `json:"machine,omitempty"`
	Load    *loadRecord   `json:"load,omitempty"`
	Import  *importRecord `json:"import,omitempty"`
	Start   *startRecord  `json:"start,omitempty"`
}

// machine is what the numbers depend on besides the programs.
type machine struct {
	Cores       int               `json:"cores"`
	Processor   string            `json:"processor"`
	MemoryBytes int64             `json:"memory_bytes"`
	Kernel      string            `json:"kernel"`
	System      string            `json:"system"`
	FileSystem  string            `json:"file_system"`
	FsyncMicros float64           `json:"fsync_micros"` // the median of appending 4 KiB and fsync
	Commit      string            `json:"commit"`       // of the product; with + if files were changed
	Versions    map[string]string `json:"versions"`
	Seconds     float64           `json:"seconds"` // that each run measured
}

// loadRecord is one run of the generator against one contender.
type loadRecord struct {
	Phase       string `json:"phase"` // compare, growth, wal, or one of those of burst.go
	Set         string `json:"set"`   // shared or pinned
	Round       int    `json:"round"`
	Contender   string `json:"contender"`
	Connections int64  `json:"connections"`
	Order       string `json:"order"`  // of the ids: random or ascending
	Before      int64  `json:"before"` // plants in the store when it began
	Fault       string `json:"fault,omitempty"`

	Generator wrkResult `json:"generator"`

	ServerMicros   float64 `json:"server_micros"`   // processor time a request
	DatabaseMicros float64 `json:"database_micros"` // the same, of a database server
	ServerBytes    int64   `json:"server_bytes"`    // resident at the end
	ServerPeak     int64   `json:"server_peak"`     // the most that was resident
	DatabaseBytes  int64   `json:"database_bytes"`  // proportional share of all processes of a database server, at the end
	Rows           int64   `json:"rows"`            // stored by the run, as counted afterwards
	Answers        int64   `json:"answers"`         // answered with 200, warm-up and probe included
	DiskBytes      int64   `json:"disk_bytes"`      // taken by the run's rows, after a clean stop
	WALPeak        int64   `json:"wal_peak"`        // the most that the write-ahead log took
	WALBound       int64   `json:"wal_bound"`       // what it was told to stay below; 0: not told
	Stolen         float64 `json:"stolen"`          // part of the processors' time that the host took away
	LoadBefore     float64 `json:"load_before"`     // the machine's load average just before the run
}

// wrkResult is what the generator found; times are microseconds.
type wrkResult struct {
	Requests int64 `json:"requests"`
	Micros   int64 `json:"micros"`
	P50      int64 `json:"p50"`
	P99      int64 `json:"p99"`
	P999     int64 `json:"p999"`
	Max      int64 `json:"max"`
	Status   int64 `json:"status"` // answers of 400 and above
	Connect  int64 `json:"connect"`
	Read     int64 `json:"read"`
	Write    int64 `json:"write"`
	Timeout  int64 `json:"timeout"`
}

func (w wrkResult) perSecond() float64 {
	if w.Micros == 0 {
		return 0
	}
	return float64(w.Requests) / float64(w.Micros) * 1e6
}

// answers is how many requests were answered with a status below 400.
func (w wrkResult) answers() int64 { return w.Requests - w.Status }

func (w wrkResult) failures() int64 { return w.Status + w.Connect + w.Read + w.Write + w.Timeout }

// importRecord is one import of a file into an empty store.
type importRecord struct {
	Round     int     `json:"round"`
	Contender string  `json:"contender"` // plantstore or sqlite3
	Source    string  `json:"source"`    // real, random or ascending
	Rows      int64   `json:"rows"`
	Seconds   float64 `json:"seconds"`
	Processor float64 `json:"processor"` // seconds of processor time
	Peak      int64   `json:"peak"`      // bytes, the most that was resident
	DiskBytes int64   `json:"disk_bytes"`
	Fault     string  `json:"fault,omitempty"`
}

func (r importRecord) perSecond() float64 { return float64(r.Rows) / r.Seconds }

// startRecord is one start of the server on a store that holds plants.
type startRecord struct {
	Round  int     `json:"round"`
	Before int64   `json:"before"`
	Millis float64 `json:"millis"` // from the start of the process to the first 200 of /readyz
}
