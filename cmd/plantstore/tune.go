package main

import (
	"runtime"
	"runtime/debug"
	"syscall"
)

// Settings of the Go runtime in a server and an import, measured with bench/.
const (
	// The committer is in a blocking system call most of the time, and needs a processor after each. With few
	// processors it waits behind all other goroutines.
	processorsMin = 4
	// The live heap is a few MB. The default would collect garbage twenty times a second.
	collectAtPercent = 400
	// A soft limit of the Go heap, without SQLite's memory.
	heapBytesMax = 96 << 20
)

// tuneRuntime sets the Go runtime, except the settings of the operator's environment.
func (p *program) tuneRuntime() {
	if p.environ["GOMAXPROCS"] == "" && runtime.GOMAXPROCS(0) < processorsMin {
		runtime.GOMAXPROCS(processorsMin)
	}
	if p.environ["GOGC"] == "" {
		debug.SetGCPercent(collectAtPercent)
	}
	if p.environ["GOMEMLIMIT"] == "" {
		debug.SetMemoryLimit(heapBytesMax)
	}
}

// descriptorsReserved is the number of descriptors for the store, backups, database connections and the admin listener.
// Clients of the public listener cannot use them.
const descriptorsReserved = 64

// connectionsMax returns the maximal number of connections of the public listener: the limit of open files without the
// reserved descriptors.
func connectionsMax() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	const unlimited = 1 << 30 // for RLIM_INFINITY
	n := int(min(limit.Cur, unlimited))
	return n - min(descriptorsReserved, n/2)
}
