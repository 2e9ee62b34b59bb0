package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// phaseFloorAlone is the load of a single client on the floor, in the rounds of burst.go.
const phaseFloorAlone = "floor alone"

// syncRun is a measurement of fdatasync without other load.
type syncRun struct {
	Round  int     `json:"round"`
	Bytes  int64   `json:"bytes"`  // of each write: as many as a create of a single client adds to the WAL
	Micros float64 `json:"micros"` // median of a write and its fdatasync
}

// leastAlone measures the parts of a create of a single client that no server can avoid: the exchange over HTTP, and a
// sync of so many bytes.
func (b *bench) leastAlone(ctx context.Context, round int, dir string, bytes int64) error {
	if err := b.load(ctx, loadSpec{
		phase: phaseFloorAlone, set: setShared, round: round, contender: floorName,
		connections: 1, order: orderRandom, time: b.duration,
	}); err != nil {
		return err
	}
	micros, err := syncMicros(filepath.Join(dir, "sync"), bytes)
	if err != nil {
		return err
	}
	b.log.Info("measured", "bytes", bytes, "fdatasync_us", int(micros))
	return b.save(measurement{Sync: &syncRun{Round: round, Bytes: bytes, Micros: micros}})
}

// walBytes creates some plants, one after the other, and returns the bytes that each adds to the WAL.
func (s *server) walBytes(ctx context.Context) (int64, error) {
	const plants = 20 // so few that no checkpoint restarts the WAL
	wal := filepath.Join(s.dir, s.file) + "-wal"
	before, err := os.Stat(wal)
	if err != nil {
		return 0, err
	}
	for i := range int64(plants) {
		if status, body, err := s.post(ctx, s.token, probeID-1-i); err != nil || status != http.StatusOK {
			return 0, fmt.Errorf("create: %d %s: %w", status, body, err)
		}
	}
	after, err := os.Stat(wal)
	if err != nil {
		return 0, err
	}
	return (after.Size() - before.Size()) / plants, nil
}

// syncMicros returns the median time of a write and its fdatasync, in a file whose blocks exist, in microseconds.
func syncMicros(path string, bytes int64) (float64, error) {
	const writes = 2000
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := slices.Repeat([]byte{1}, int(bytes))
	for range writes {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	times := make([]float64, 0, writes)
	for i := range int64(writes) {
		started := time.Now()
		if _, err := f.WriteAt(block, i*bytes); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, fmt.Errorf("fdatasync: %w", err)
		}
		times = append(times, float64(time.Since(started).Nanoseconds())/1e3)
	}
	return spreadOf(times).median, nil
}

// aloneRatios divides the p50 of a single client by the sum of its least parts, by round.
func (r *results) aloneRatios(phase string) []float64 {
	var ratios []float64
	for _, run := range r.phase(phase).valid() {
		for _, floor := range r.phase(phaseFloorAlone).valid() {
			for _, sync := range r.syncs {
				if floor.Round == run.Round && sync.Round == run.Round {
					ratios = append(ratios, p50(run)/(p50(floor)+sync.Micros))
				}
			}
		}
	}
	return ratios
}

// aloneTargets compares a single client with the least that a create needs.
func (r *results) aloneTargets(t *targets) {
	for _, phase := range []string{phaseBefore, phaseAfter} {
		t.addRatio("p50 of a single client "+phase+" ÷ (floor + fdatasync of the same bytes)", false, 1.3,
			r.aloneRatios(phase))
	}
}

// aloneLine has the least parts of a create of a single client.
func (r *results) aloneLine() string {
	var bytes, micros []float64
	for _, s := range r.syncs {
		bytes, micros = append(bytes, float64(s.Bytes)), append(micros, s.Micros)
	}
	if len(bytes) == 0 {
		return ""
	}
	return fmt.Sprintf("\nA create of a single client adds %s bytes to the WAL. A write of as many bytes and its "+
		"fdatasync take %s ms without a server, and an exchange with the floor takes %s ms.\n", spreadOf(bytes).text(whole),
		spreadOf(micros).text(millis), r.phase(phaseFloorAlone).spread(p50).text(millis))
}
