package store

import (
	"context"
	"fmt"
	"time"
)

// Statements runs SQL that both engines accept, and has the statements that differ between them. Outside of a
// transaction it only reads.
//
// Parameters are $1, $2 and so on. Each engine has its own types of columns for integers, texts, bytes, booleans and
// times. The zero time is NULL.
type Statements interface {
	// Exec runs a statement, and returns the number of rows that it has changed.
	Exec(sql string, args ...any) (changed int64, err error)

	// ExecEach runs a statement with each of the lists of arguments, and returns the number of changed rows.
	ExecEach(sql string, args [][]any) (changed int64, err error)

	// Query calls row for each row of a query, until row returns an error.
	Query(row func(Scan) error, sql string, args ...any) error

	// ChangeTokens is ExecEach for a change of the columns of tokens but their last use. The first of the arguments is the
	// id of the token that changes.
	ChangeTokens(sql string, args [][]any) error

	// MayDeleteTokens reports whether the database allows that.
	MayDeleteTokens() (bool, error)

	// PlantsByID returns the plants with these ids by ascending id, until their texts exceed a number of bytes. It omits
	// damaged plants.
	PlantsByID(ids []int64, bytesMax int) ([]Row, error)

	// DeletePlants deletes the plants that are stored in these versions, which have ascending ids, and returns their ids.
	DeletePlants(plants []Version) (ids []int64, err error)

	// InsertPlant stores a plant whose id is free.
	InsertPlant(c Create) error

	// OldestEvent returns the time of the oldest event in the outbox; the zero time for none.
	OldestEvent() (time.Time, error)

	// FanOut replaces the oldest events of the outbox by a delivery to each active webhook. It returns 0 if it has
	// replaced none.
	FanOut(events int, now time.Time) (int64, error)
}

// Scan copies the columns of a row, as database/sql does. NULL becomes the zero value of a string, a []byte or a time.
type Scan func(dest ...any) error

// Tables reads and changes the tables of tokens, of the audit log and of webhooks. All other writers of these tables
// wait for a transaction of Operations.Write.
type Tables struct {
	Statements
	Now time.Time // when the transaction started, by the clock of the engine
}

// collect returns the rows of a query.
func collect[T any](s Statements, row func(Scan) (T, error), sql string, args ...any) (all []T, err error) {
	err = s.Query(func(scan Scan) error {
		r, err := row(scan)
		all = append(all, r)
		return err
	}, sql, args...)
	return all, err
}

// ErrNoRow is the error for a store whose table plantstore has no row.
var ErrNoRow = fmt.Errorf("%w: the table plantstore has no row", ErrBroken)

// queryRow scans the only row of a query.
func queryRow(s Statements, sql string, dest ...any) error {
	found := false
	err := s.Query(func(scan Scan) error {
		found = true
		return scan(dest...)
	}, sql)
	if err == nil && !found {
		err = ErrNoRow
	}
	return err
}

// Operations reads and changes the tokens, the audit log and the webhooks of a store. An engine embeds it, and supplies
// the fields. The interfaces of the packages that call an engine have the contracts of the methods.
type Operations struct {
	// Read calls do outside of a transaction.
	Read func(ctx context.Context, do func(Tables) error) error

	// ReadLong is Read for a read of a whole table, which may take long.
	ReadLong func(ctx context.Context, do func(Tables) error) error

	// Write calls change in a transaction. An error means that it changed nothing, unless the error wraps
	// ErrOutcomeUnknown.
	Write func(ctx context.Context, change func(Tables) error) error

	Events chan struct{} // capacity 1; holds a value after this engine has written events
}

func read[T any](ctx context.Context, o *Operations, do func(Tables) (T, error)) (result T, err error) {
	err = o.Read(ctx, func(t Tables) (err error) {
		result, err = do(t)
		return err
	})
	return result, err
}
