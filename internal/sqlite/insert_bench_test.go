package sqlite_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// BenchmarkInsert measures commits into a store that is empty at first, each with one fsync, including the checkpoints.
func BenchmarkInsert(b *testing.B) {
	for _, order := range []struct {
		name string
		next func() func() int64
	}{
		{"ascending", ascendingIDs},
		{"random", randomIDs},
	} {
		for _, size := range []int{1, 32, 256, 4096} {
			b.Run(fmt.Sprintf("%s/plants=%d", order.name, size), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "plantstore.db")
				e := sqlitetest.Open(b, sqlite.Config{Path: path, Server: true, Log: slog.New(slog.DiscardHandler)})
				defer func() {
					if err := e.Close(); err != nil {
						b.Error(err)
					}
				}()
				batch, next, at := make([]store.Create, size), order.next(), time.Now()
				content := plant.Plant{Name: "Made for measuring", Tag: plant.Tagged("made")}
				b.ReportAllocs()
				for b.Loop() {
					for i := range batch {
						batch[i] = store.Create{Plant: plant.NewPlant{ID: next(), Plant: content}, By: 1, At: at}
					}
					if err := sqlitetest.Insert(b.Context(), e, batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "plants/s")
			})
		}
	}
}

func ascendingIDs() func() int64 {
	id := int64(0)
	return func() int64 {
		id++
		return id
	}
}

// randomIDs returns ids that are almost surely distinct and are the same in every run.
func randomIDs() func() int64 {
	random := rand.New(rand.NewPCG(1, 2))
	return random.Int64
}
