package serve

import "testing"

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

func TestConnectionsMax(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int{1 << 40: 5000, 32 << 20: 512, 1 << 16: 1, 1: 1, 0: 1} {
		if n := connectionsMax(5000, memory); n != want {
			t.Errorf("%d bytes: got %d, want %d", memory, n, want)
		}
	}
	if n := connectionsMax(1<<30, 1<<40); n != 10_000 {
		t.Errorf("without limits: got %d, want 10000", n)
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
