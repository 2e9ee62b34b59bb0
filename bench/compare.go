package main

import (
	"context"
	"os"
)

// pinnedRounds is the number of rounds on separate processors, which are only a second view.
const pinnedRounds = 2

// compare runs every contender once a round with each number of connections. The
// first contender changes from round to round.
func (b *bench) compare(ctx context.Context) error {
	var names []string
	for _, c := range contenders {
		if !b.compares(c.name) {
			continue
		}
		if c.name == citusName && os.Getenv(citusVariable) == "" {
			b.log.Info("skipping a contender: no cluster is set", "contender", c.name, "variable", citusVariable)
			continue
		}
		names = append(names, c.name)
	}
	sets := []string{setShared}
	if b.pin {
		sets = append(sets, setPinned)
	}
	for round := b.round; round < b.round+b.rounds; round++ {
		for _, set := range sets {
			if set == setPinned && round >= b.round+pinnedRounds {
				continue
			}
			for _, connections := range b.connections {
				for i := range names {
					err := b.load(ctx, loadSpec{
						phase: "compare", set: set, round: round, contender: names[(round+i)%len(names)],
						connections: connections, order: orderRandom, time: b.duration,
					})
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
