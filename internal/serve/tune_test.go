package serve

import (
	"runtime/debug"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for available, want := range map[uint64]int64{
		0: 32 << 20, 64 << 20: 32 << 20, 128 << 20: 32 << 20, 256 << 20: 128 << 20, 512 << 20: 320 << 20,
		8 << 30: 6080 << 20, 1<<64 - 1: 768<<40 - 64<<20,
	} {
		if got := memoryLimit(available); got != want {
			t.Errorf("%d bytes: got %d, want %d", available, got, want)
		}
	}
	if available := availableMemory(); available < 64<<20 || available > 1<<50 {
		t.Errorf("got %d bytes of memory", available)
	}
}

// A set number is in force up to the limit of open files; the default also depends on memory.
func TestConnectionsMax(t *testing.T) {
	t.Parallel()
	files := descriptorsForClients()
	if n, reduced := connectionsMax(7); n != 7 || reduced {
		t.Errorf("7: got %d, %v", n, reduced)
	}
	if n, reduced := connectionsMax(files + 1); n != files || !reduced {
		t.Errorf("%d: got %d, %v, want %d", files+1, n, reduced, files)
	}
	for memory, want := range map[int64]int{1 << 40: 5000, 32 << 20: 512, 1 << 16: 1, 1: 1, 0: 1} {
		if n := automaticConnections(5000, memory); n != want {
			t.Errorf("%d bytes: got %d, want %d", memory, n, want)
		}
	}
	for limit := int64(-1); limit != debug.SetMemoryLimit(-1); { // an import of another test changes it
		limit = debug.SetMemoryLimit(-1)
		n, reduced := connectionsMax(0)
		if want := min(10_000, files, int(limit>>16)); limit == debug.SetMemoryLimit(-1) && (n != want || reduced) {
			t.Errorf("automatic: got %d, %v, want %d", n, reduced, want)
		}
	}
}

func TestAdminConnectionsMax(t *testing.T) {
	t.Parallel()
	for descriptors, want := range map[int]int{1 << 30: 512, 4096: 512, 4095: 511, 1024: 128, 128: 16, 20: 16} {
		if got := adminConnectionsMax(descriptors); got != want {
			t.Errorf("%d descriptors: got %d connections, want %d", descriptors, got, want)
		}
	}
}
