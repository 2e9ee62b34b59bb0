package main

import (
	"runtime"
	"runtime/debug"
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
