package main

import (
	"runtime"
	"runtime/debug"
	"syscall"
)

// What a server and an import give the Go runtime, measured with bench/.
const (
	// Whoever commits is in a blocking system call most of the time, and waits
	// for a processor after each; with few of them, behind everybody else.
	processorsMin = 4
	// The live heap is a few MB, so the default collects twenty times a second.
	collectAtPercent = 400
	// Beyond this the collector works as hard as it must. SQLite's memory is
	// not part of it.
	heapBytesMax = 96 << 20
)

// tuneRuntime sets what the operator's environment does not.
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

// descriptorsReserved are descriptors that clients of the public listener cannot
// use: they are for the store, backups, the connections to a database and the
// admin listener.
const descriptorsReserved = 64

// connectionsMax returns how many connections the public listener may have: as
// many as the limit of open files allows, without those that are reserved.
func connectionsMax() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	const most = 1 << 30 // for a limit that is none
	n := int(min(limit.Cur, most))
	return n - min(descriptorsReserved, n/2)
}
