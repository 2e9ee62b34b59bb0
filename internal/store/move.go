package store

import (
	"errors"
	"fmt"
	"iter"
)

// ErrMoveRunning means that a move of this store, or to it, runs.
var ErrMoveRunning = errors.New("a move of this store, or to it, runs")

// ErrInUse means that another process uses a store that a move needs for itself.
var ErrInUse = errors.New("stop its servers and commands first")

// ErrNotNew means that the destination of a move has content.
var ErrNotNew = errors.New("move into a new store")

// Moved returns the error for a store that was moved to another one; nil if that has no name.
func Moved(to string) error {
	if to == "" {
		return nil
	}
	return fmt.Errorf("the store was moved to %s; use that store, or if it does not exist, run the killed move again", to)
}

// Totals are the number and the digest of all plants. They are equal for two stores that hold the same plants.
type Totals struct {
	Plants  int64
	Digests int64 // the sum of Digester.Plant over all plants
}

// Sum returns the totals of plants.
func Sum(plants iter.Seq2[Row, error]) (t Totals, err error) {
	var d Digester
	for r, err := range plants {
		if err != nil {
			return t, err
		}
		t.Plants++
		t.Digests += d.Plant(&r.NewPlant, r.CreatedAt, r.CreatedBy)
	}
	return t, nil
}
