package main

import "time"

const rawName = "raw.jsonl"

// measurement is one line of raw.jsonl. Exactly one field beside At is set.
type measurement struct {
	At      time.Time `json:"at"`
	Machine *machine  `json:"machine,omitempty"`
	Load    *loadRun  `json:"load,omitempty"`
}

// machine has the properties of the machine and the versions of the programs.
type machine struct {
	Cores       int               `json:"cores"`
	Processor   string            `json:"processor"`
	MemoryBytes int64             `json:"memory_bytes"`
	Kernel      string            `json:"kernel"`
	System      string            `json:"system"`
	FileSystem  string            `json:"file_system"`
	FsyncMicros float64           `json:"fsync_micros"` // median of an append of 4 KiB and an fsync
	Commit      string            `json:"commit"`       // Plant Store's; with + if files were modified
	Versions    map[string]string `json:"versions"`
	Seconds     float64           `json:"seconds"` // measured time of each run
}

// loadRun is one run of the generator against one contender.
type loadRun struct {
	Set         string `json:"set"` // shared or pinned
	Round       int    `json:"round"`
	Contender   string `json:"contender"`
	Connections int64  `json:"connections"`
	Fault       string `json:"fault,omitempty"`

	Generator wrkResult `json:"generator"`

	ServerMicros   float64 `json:"server_micros"`   // processor time of the server a request
	DatabaseMicros float64 `json:"database_micros"` // processor time of the database server a request
	ServerPeak     int64   `json:"server_peak"`     // largest resident memory
	DatabaseBytes  int64   `json:"database_bytes"`  // memory (PSS) of all processes of the database server at the end
	Rows           int64   `json:"rows"`            // rows that the run stored, counted after the shutdown
	Answers        int64   `json:"answers"`         // acknowledged plants, with warm-up and probe
	DiskBytes      int64   `json:"disk_bytes"`      // disk space of the run's rows after the shutdown
	Stolen         float64 `json:"stolen"`          // fraction of the processors' time that the host used for others
	LoadBefore     float64 `json:"load_before"`     // load average before the run
}

// The values of loadRun.Set: the generator and the server share all processors, or each has half of them.
const (
	setShared = "shared"
	setPinned = "pinned"
)

// wrkResult is the result of wrk; times are in microseconds.
type wrkResult struct {
	Requests int64 `json:"requests"`
	Micros   int64 `json:"micros"`
	P50      int64 `json:"p50"`
	P99      int64 `json:"p99"`
	P999     int64 `json:"p999"`
	Max      int64 `json:"max"`
	Status   int64 `json:"status"` // responses with a status of 400 or above
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

// answers returns the number of responses with a status below 400.
func (w wrkResult) answers() int64 { return w.Requests - w.Status }

func (w wrkResult) failures() int64 { return w.Status + w.Connect + w.Read + w.Write + w.Timeout }
