package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

// TestMoveBesideReader shows that a move does not wait for a transaction that only reads, a dump for example.
func TestMoveBesideReader(t *testing.T) {
	t.Parallel()
	url := database(t)
	if err := place(url).Open(t).Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.WithoutCancel(t.Context()))
	if _, err := reader.Exec(t.Context(), "BEGIN; SELECT count(*) FROM plants"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.OpenSource(t.Context(), postgres.Config{URL: url}); !errors.Is(err, store.ErrMoveRunning) {
		t.Errorf("got %v, want %v", err, store.ErrMoveRunning)
	}
}

// TestReadMoved shows that commands that only read open a store that was moved.
func TestReadMoved(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := place(url).Open(t)
	if err := errors.Join(insertBatch(t.Context(), e, plants(1, 1)), e.Close()); err != nil {
		t.Fatal(err)
	}
	m, err := postgres.OpenSource(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.SetMovedTo(t.Context(), "another", audit.Event{}), m.Close()); err != nil {
		t.Fatal(err)
	}
	reader, err := postgres.Open(t.Context(), postgres.Config{URL: url, MustExist: true, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, errGet := reader.Get(t.Context(), 1)
	if err := errors.Join(errGet, reader.Close()); err != nil {
		t.Error(err)
	}
}
