package main

import (
	"context"
	"iter"
	"math"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// creator returns the creator of a plant as text for a terminal.
func creator(r plant.Record) string {
	if r.CreatedBy == "" {
		return "(the operator)"
	}
	return printable(r.CreatedBy)
}

// recordPage is the maximum number of plants of one read, so that its transaction does not delay the server's
// checkpoints.
const recordPage = 5000

// allRecords returns all plants of a query and ignores its limit. It reads page by page: it has one page in memory, and
// no transaction of the store between two pages. An error ends the sequence.
func allRecords(ctx context.Context, engine store.Engine, q store.Query) iter.Seq2[plant.Record, error] {
	return func(yield func(plant.Record, error) bool) {
		page := q
		page.Limit = recordPage / 25 // for the first page, because the plants may be large
		for {
			records, err := engine.List(ctx, page)
			if err != nil {
				yield(plant.Record{}, err)
				return
			}
			bytes := 0
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
				bytes += r.Bytes()
			}
			if len(records) < page.Limit && bytes <= store.PlantsBytes || records[len(records)-1].ID == math.MaxInt64 {
				return
			}
			page.From = records[len(records)-1].ID + 1
			// PostgreSQL sends every plant up to the limit, and List discards those beyond store.PlantsBytes.
			page.Limit = max(1, min(recordPage, store.PlantsBytes*len(records)/max(1, bytes)))
		}
	}
}
