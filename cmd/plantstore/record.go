package main

import (
	"context"
	"iter"
	"math"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// creator names who created a plant, for a terminal.
func creator(r plant.Record) string {
	if r.CreatedBy == "" {
		return "(the operator)"
	}
	return printable(r.CreatedBy)
}

// recordPage is how many plants are read at once: few enough that no read
// transaction keeps the server's checkpoints waiting.
const recordPage = 5000

// allRecords returns all plants that a query selects, whatever its limit. It
// reads page by page: it holds one page in memory, and no transaction of the
// store between two pages. An error comes last.
func allRecords(ctx context.Context, engine store.Engine, q store.Query) iter.Seq2[plant.Record, error] {
	return func(yield func(plant.Record, error) bool) {
		page := q
		page.Limit = recordPage / 25 // at first, because the plants may be large
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
			page.Limit = max(1, min(recordPage, store.PlantsBytes*len(records)/max(1, bytes))) // PostgreSQL would send the rest in vain
		}
	}
}

// appendRecord appends a record as a line of JSON: the plant's members, and
// created_at and created_by, the token's name, which is absent for the operator.
func appendRecord(dst []byte, r plant.Record) []byte {
	dst = r.NewPlant.AppendJSON(dst)
	dst = append(dst[:len(dst)-1], `,"created_at":`...)
	dst = plant.AppendString(dst, r.CreatedAt.Format(time.RFC3339Nano))
	if r.CreatedBy != "" {
		dst = append(dst, `,"created_by":`...)
		dst = plant.AppendString(dst, r.CreatedBy)
	}
	return append(dst, '}', '\n')
}
