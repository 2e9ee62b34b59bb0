package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// A store is followed and held also while somebody reads all of it, as a dump
// does, and its servers go on until it is held.
func TestMoveBesideReader(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, other := place(url).Open(t), place(url).Open(t)
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	})
	reader, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.WithoutCancel(t.Context()))
	if _, err := reader.Exec(t.Context(), "BEGIN; SELECT count(*) FROM plants"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	insert := func(id int64) error {
		return other.Insert(ctx, []store.Create{{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}})
	}
	for _, err := range []error{
		e.Follow(ctx),
		insert(1),
		e.Hold(ctx, store.Hold{Why: store.Moving, Other: "a place"}),
		e.Hold(ctx, store.Hold{Why: store.Moved, Other: "a place"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := insert(2); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a plant for a store that is held: %v, want %v", err, store.ErrHeld)
	}
}
