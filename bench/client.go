package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

const phaseClient = "client"

// The loads of the phase client.
const (
	loadByWrk    = "by wrk"
	loadByClient = "by the Go client"
)

const creatorName = "creator"

// clients compares the creates of the Go client with those of wrk.
func (b *bench) clients(ctx context.Context) error {
	for round := b.round; round < b.round+b.phaseRounds(); round++ {
		all := []loadSpec{{phase: loadByWrk}, {phase: loadByClient, byClient: true}}
		if round%2 == 1 {
			slices.Reverse(all)
		}
		for _, spec := range all {
			spec.set, spec.round, spec.contender, spec.connections = setShared, round, productName, 64
			spec.order, spec.time = orderRandom, b.duration
			if err := b.load(ctx, spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// creator returns the command of the Go client. The token is in its environment.
func (b *bench) creator(ctx context.Context, s *server, spec loadSpec) *exec.Cmd {
	c := exec.CommandContext(ctx, b.program(creatorName), "-url", s.url(), "-connections",
		strconv.FormatInt(spec.connections, 10), "-duration", spec.time.String())
	c.Env = append(os.Environ(), "PLANTSTORE_TOKEN="+s.token)
	return c
}

// clientTargets compares the rate of the Go client with that of wrk.
func (r *results) clientTargets(t *targets) {
	t.addRatio("rate of the Go client ÷ wrk, 64 connections", true, 0.9,
		r.phaseOf(loadByClient, productName).ratios(r.phaseOf(loadByWrk, productName), rate))
}

// clientTable has the rates of the phase client.
func (r *results) clientTable() string {
	byWrk := r.phaseOf(loadByWrk, productName)
	if len(byWrk) == 0 {
		return notMeasured
	}
	t := &table{}
	t.row("creates", "connections", "requests a second", "÷ wrk", "p50 ms", "p99 ms")
	for _, phase := range []string{loadByWrk, loadByClient} {
		if runs := r.phaseOf(phase, productName); len(runs) > 0 {
			t.row(phase, fmt.Sprint(runs[0].Connections), runs.spread(rate).text(whole),
				spreadOf(runs.ratios(byWrk, rate)).text(twoDecimals), runs.spread(p50).medianText(millis),
				runs.spread(p99).text(millis))
		}
	}
	return t.String()
}
