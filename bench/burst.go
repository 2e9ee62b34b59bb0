package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// burstConnections is the number of connections of a burst.
const burstConnections = 64

// The phases of a round: one connection, burstConnections, one connection.
const (
	phaseBefore = "before burst"
	phaseBurst  = "burst"
	phaseAfter  = "after burst"
)

// bursts measures the latency of a single client of the product before and after
// a burst, on the same server.
func (b *bench) bursts(ctx context.Context) error {
	for round := b.round; round < b.round+b.phaseRounds(); round++ {
		dir, err := b.runDir()
		if err != nil {
			return err
		}
		all := []loadRun{
			{Phase: phaseBefore, Connections: 1},
			{Phase: phaseBurst, Connections: burstConnections},
			{Phase: phaseAfter, Connections: 1},
		}
		for i := range all {
			all[i].Set, all[i].Round, all[i].Contender, all[i].Order = setShared, round, productName, orderRandom
		}
		bytes, fault := b.burstIn(ctx, dir, all)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, r := range all {
			if fault != nil {
				r.Fault = fault.Error()
			}
			b.log.Info("measured", "phase", r.Phase, "round", r.Round, "p50_us", r.Generator.P50, "p99_us", r.Generator.P99,
				"fault", r.Fault)
			if err := b.save(measurement{Load: &r}); err != nil {
				return err
			}
		}
		if fault == nil {
			if err := b.leastAlone(ctx, round, dir, bytes); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// burstIn measures the phases of one round in dir, then compares the stored plants with the acknowledged ones. It
// returns the bytes that a create of a single client adds to the WAL.
func (b *bench) burstIn(ctx context.Context, dir string, all []loadRun) (bytes int64, err error) {
	s := &server{contender: *contenderNamed(productName), dir: dir}
	if err := syncDisks(ctx); err != nil {
		return 0, err
	}
	if err := b.launch(ctx, s); err != nil {
		return 0, err
	}
	bytes, err = s.walBytes(ctx)
	var answers int64
	if err == nil {
		answers, err = b.burstOn(ctx, s, all)
	}
	if err := errors.Join(err, s.shutdown()); err != nil {
		return 0, err
	}
	stored, err := countFile(ctx, filepath.Join(dir, s.file))
	if err == nil && stored < answers {
		err = fmt.Errorf("%d plants were acknowledged, but only %d are stored", answers, stored)
	}
	return bytes, err
}

// burstOn measures the phases of one round on a server and returns the number of
// acknowledged plants.
func (b *bench) burstOn(ctx context.Context, s *server, all []loadRun) (answers int64, err error) {
	warm, err := b.generate(ctx, s, "", loadSpec{connections: 1, order: orderRandom, round: all[0].Round}, streamWarmUp,
		warmUpTime)
	if err != nil {
		return 0, err
	}
	answers, failures := 1+warm.answers(), warm.failures()
	for i := range all {
		r := &all[i]
		r.LoadBefore = loadAverage()
		spec := loadSpec{round: r.Round, connections: r.Connections, order: r.Order, time: b.duration}
		if err := b.measureStream(ctx, s, "", spec, streamMeasured+i, r); err != nil {
			return 0, err
		}
		answers += r.Generator.answers()
		failures += r.Generator.failures()
	}
	if failures > 0 {
		return 0, fmt.Errorf("%d requests failed", failures)
	}
	return answers, nil
}
