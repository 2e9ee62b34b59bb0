package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// walBound is the value of --wal-max while the benchmark samples the size of the
// WAL. It equals the default; the page compares the size with it.
const walBound = 64 << 20

// growth measures the product on stores of several sizes: rate, size of the WAL, and
// time until it is ready. The largest number of connections measures all of them, the
// others the smallest and the largest store with random ids.
func (b *bench) growth(ctx context.Context) error {
	connections := slices.Max(b.connections)
	type start struct {
		order       string
		store       generatedStore
		connections int64
	}
	var starts []start
	for _, order := range []string{orderRandom, orderAscending} {
		for _, n := range b.rows {
			store, err := b.store(ctx, order, n)
			if err != nil {
				return err
			}
			starts = append(starts, start{order, store, connections})
		}
	}
	for _, fewer := range b.connections {
		if fewer < connections {
			for _, s := range []start{starts[0], starts[len(b.rows)-1]} {
				starts = append(starts, start{s.order, s.store, fewer})
			}
		}
	}
	for round := b.round; round < b.round+b.phaseRounds(); round++ {
		for i := range starts {
			s := starts[(round+i)%len(starts)]
			err := b.load(ctx, loadSpec{
				phase: "growth", set: setShared, round: round, contender: productName,
				connections: s.connections, order: s.order, store: s.store, time: b.duration,
			})
			if err != nil {
				return err
			}
		}
	}
	largest := starts[len(b.rows)-1] // random ids come first
	err := b.load(ctx, loadSpec{
		phase: "wal", set: setShared, contender: productName,
		connections: connections, order: largest.order, store: largest.store, time: b.walTime, walBound: walBound,
	})
	if err != nil {
		return err
	}
	return b.starts(ctx, largest.store)
}

// starts measures the time from the start of the server until it is ready, on a
// store whose server was shut down.
func (b *bench) starts(ctx context.Context, store generatedStore) error {
	dir, err := b.runDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &server{contender: *contenderNamed(productName), dir: dir}
	if err := store.copyTo(ctx, filepath.Join(dir, s.file)); err != nil {
		return err
	}
	// Without a token the first start would create one.
	if _, err := b.createToken(ctx, productName, filepath.Join(dir, s.file)); err != nil {
		return err
	}
	for round := range 2 * b.phaseRounds() {
		if err := syncDisks(ctx); err != nil {
			return err
		}
		took, err := b.timeStart(ctx, s)
		if err != nil {
			return err
		}
		b.log.Info("started", "before", store.rows, "took", took)
		millis := float64(took.Microseconds()) / 1e3
		if err := b.save(measurement{Start: &startRun{Round: round, Before: store.rows, Millis: millis}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) timeStart(ctx context.Context, s *server) (took time.Duration, err error) {
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = freeAddress(ctx); err != nil {
			return 0, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addresses[1]+"/readyz", http.NoBody)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	s.process, err = start(ctx, place{}, nil, b.program(productName), "serve", "--db", filepath.Join(s.dir, s.file),
		"--listen", addresses[0], "--admin-listen", addresses[1])
	if err != nil {
		return 0, err
	}
	err = waitFor(ctx, "readiness", s.exited, func() bool {
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	took = time.Since(began)
	http.DefaultClient.CloseIdleConnections()
	if stopped := s.shutdown(); err == nil {
		err = stopped
	}
	return took, err
}
