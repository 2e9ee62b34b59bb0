package serve

import (
	"math"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"plantstore/internal/config"
)

// Settings of the Go runtime in a server and an import, measured with bench/.
const (
	// The committer is in a blocking system call most of the time, and needs a processor after each. With few
	// processors it waits behind all other goroutines.
	ProcessorsMin = 4
	// The live heap is a few MB. The default would collect garbage twenty times a second.
	CollectAtPercent = 400
	// Bytes of SQLite's page caches, which the Go runtime does not count.
	EngineBytes = 64 << 20
	// A smaller memory limit would only cause more collections: an idle server needs a third of it.
	memoryBytesMin = 32 << 20
)

// TuneRuntime sets the Go runtime, except the settings of the operator's environment.
func TuneRuntime(env *config.Environment) {
	if env.Vars["GOMAXPROCS"] == "" && runtime.GOMAXPROCS(0) < ProcessorsMin {
		runtime.GOMAXPROCS(ProcessorsMin)
	}
	if env.Vars["GOGC"] == "" {
		debug.SetGCPercent(CollectAtPercent)
	}
	if env.Vars["GOMEMLIMIT"] == "" {
		debug.SetMemoryLimit(memoryLimit(availableMemory()))
	}
}

// ImportBytes is the soft memory limit of an import, which allocates a plant for each row. Without it, CollectAtPercent
// would let the garbage grow to four times the rows that the import sorts in memory.
const ImportBytes = 160 << 20

// TuneImport sets the Go runtime for an import.
func TuneImport(env *config.Environment) {
	TuneRuntime(env)
	if env.Vars["GOMEMLIMIT"] == "" {
		debug.SetMemoryLimit(min(ImportBytes, debug.SetMemoryLimit(-1)))
	}
}

// memoryLimit returns the soft memory limit of the Go runtime on a machine or in a cgroup with so many bytes: three
// quarters of them, without the engine's. The kernel's page cache and other programs have the rest.
func memoryLimit(available uint64) int64 {
	const most = 1 << 50 // more than any machine, and far from an overflow
	return max(int64(min(available, most))/4*3-EngineBytes, memoryBytesMin)
}

// availableMemory returns the bytes of memory that the program may use: the memory of the machine, or the limit of its
// cgroup (version 1 or 2) if that is lower.
func availableMemory() uint64 {
	available := uint64(math.MaxUint64)
	for _, of := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if bytes, err := of(); err == nil { // else without a limit, or not known
			available = min(available, bytes)
		}
	}
	return available
}

// descriptorsReserved is the number of descriptors for the store, backups, database connections and the admin listener.
// Clients of the public listener cannot use them.
const descriptorsReserved = 64

// descriptorsForClients returns the number of descriptors that connections of the public listener may use: the limit of
// open files without the reserved descriptors.
func descriptorsForClients() int {
	n := descriptors()
	return n - min(descriptorsReserved, n/2)
}

// descriptors returns the limit of open files.
func descriptors() int {
	const unlimited = 1 << 30 // for RLIM_INFINITY
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	return int(min(limit.Cur, unlimited))
}

// adminConnectionsMax returns the largest number of connections of the admin listener. With a small limit of open files
// it is a small part of them, because the public listener and the store use the others.
func adminConnectionsMax(descriptors int) int {
	const least, most = 16, 512
	return max(least, min(most, descriptors/8))
}

// connectionBytes is the memory of a connection, with its buffers and goroutine, and of its garbage.
const connectionBytes = 64 << 10

// connectionsMax returns the largest number of connections of the public listener, for the descriptors of clients and
// the memory limit. It is never 0, which means no limit.
func connectionsMax(descriptors int, memory int64) int {
	const most = 10_000 // measured
	return max(1, min(most, descriptors, int(memory/connectionBytes)))
}
