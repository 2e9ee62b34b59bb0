// Package importer stores the plants of a file in batches. It reads and stores at the same time, in bounded memory for
// a file of any size, and passes each row that is not stored to its caller.
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Reaction is the reaction to a row that conflicts with a stored plant. Each of them leaves the stored plant unchanged.
type Reaction string

// The reactions.
const (
	Fail   Reaction = "fail"   // stop after the batch of the row
	Skip   Reaction = "skip"   // continue; the caller does not report the row
	Report Reaction = "report" // continue
)

// Reactions returns the names of the reactions.
func Reactions() []string { return []string{string(Fail), string(Skip), string(Report)} }

// ParseReaction returns the reaction of a name.
func ParseReaction(name string) (Reaction, error) {
	if !slices.Contains(Reactions(), name) {
		return "", fmt.Errorf("unknown reaction %q; use %s", name, strings.Join(Reactions(), ", "))
	}
	return Reaction(name), nil
}

// ErrConflict ends an import with the reaction Fail.
var ErrConflict = errors.New("conflicts with a stored plant")

// StoreError is the error of Config.Insert for a batch.
type StoreError struct {
	Rows        int   // size of the batch
	First, Last int64 // its least and greatest line
	Err         error
}

func (e *StoreError) Error() string {
	return fmt.Sprintf("store %d rows of lines %d to %d: %v", e.Rows, e.First, e.Last, e.Err)
}

// Unwrap returns the error of Config.Insert.
func (e *StoreError) Unwrap() error { return e.Err }

// Counts counts the rows by outcome. import --json and the admin API show its JSON.
type Counts struct {
	Created     int64 `json:"created"`
	Existing    int64 `json:"existing"` // replays
	Conflicting int64 `json:"conflicting"`
	Invalid     int64 `json:"invalid"`
}

// Rejected returns the number of rows that are not stored.
func (c Counts) Rejected() int64 { return c.Conflicting + c.Invalid }

// Rows returns the number of rows.
func (c Counts) Rows() int64 { return c.Created + c.Existing + c.Rejected() }

// Reject is a row that is not stored.
type Reject struct {
	dump.Row // Raw is nil unless Config.KeepRaw is set

	Reason   error
	Conflict bool // with a stored plant; false: the row is invalid
}

// Config configures Run. All fields are required except for those with a default.
type Config struct {
	// Source returns the reader of the file, plain or compressed. Its reads end with the context. Run closes it.
	Source     func(context.Context) io.ReadCloser
	Options    dump.Options
	OnConflict Reaction
	By         int64 // id of the token that creates the plants; 0 for the operator's own commands

	// Sort is for files that may be large; nil: Run stores the rows in the order of the file.
	Sort *Sorting

	BatchRows  int // most rows of a batch
	BatchBytes int // a batch ends when its rows have as many bytes

	// Found is called before the first call of Rejected or Progress, and again at the end of a file in which more members
	// were ignored.
	Found func(dump.Found)
	// DryRun stores nothing: Counts.Created is the number of rows that an import would store. It reports all conflicts,
	// also between rows of the file. It needs Sort and Stored instead of Insert.
	DryRun bool

	// Insert stores a batch, as writepath.Engine.Insert does. Run finishes the current batch even after the end of its
	// context.
	Insert func([]store.Create) ([]store.Outcome, error)
	// Stored returns stored plants, as writepath.Engine.PlantsByID does. The reason of a conflict has the stored content,
	// with ShowStored; whoever may not read plants must not see it.
	Stored     func(ids []int64, bytesMax int) ([]store.Row, error)
	ShowStored bool
	// Rejected is called for each row that is not stored, in the order of the file within a batch. An error ends the
	// import.
	Rejected func(Reject) error
	KeepRaw  bool // Rejected uses Row.Raw
	// Progress is called after each batch, and while rows are read that Sort sorts.
	Progress func(Progress)
}

// Sorting configures how Run sorts the valid rows by id. A store writes rows in ascending order several times faster
// than in random order, because each page of its index is written once. Run stores rows without a delay as long as
// their ids ascend. It sorts the others, and stores them when the file has ended. Rows with the same id keep their
// order.
type Sorting struct {
	Dir    string // for the temporary file of rows that exceed the memory; empty: the system's
	Memory int    // bytes; Run uses up to twice as many
}

// Progress is the progress of an import.
type Progress struct {
	Counts

	Waiting int64         // rows that are read and will be stored
	All     bool          // the file has been read
	Took    time.Duration // to store or reject the rows of the last batch
}

// Result is the result of Run.
type Result struct {
	Counts

	First []plant.NewPlant // the first valid rows of the file, in its order; only with Config.DryRun
}

// Run imports the rows of a file until its end, an error, or the end of the context, and counts the rows that it stored
// or rejected. The error is the cause of the context, a *StoreError, the error of Rejected, ErrConflict, or about the
// file.
func Run(ctx context.Context, c Config) (Result, error) {
	r := &run{Config: c}
	err := r.store(ctx)
	return Result{r.counts, r.first}, err
}

type run struct {
	Config

	counts Counts
	first  []plant.NewPlant // written by the reader, read after its end

	before *plant.NewPlant // the last row that a dry run would have created; nil: none
}

// batch is rows that are stored together.
type batch struct {
	rows    []dump.Row     // valid and invalid ones
	creates []store.Create // from the valid rows, in order
	waiting int64          // rows that are sorted, and come in later batches
	all     bool           // the whole input has been read
	found   *dump.Found    // nil: as in the batch before
	last    bool           // no further batch comes
	err     error          // why the input ended after this batch; nil at the end of the file
}

// store reads and stores at the same time: another goroutine reads batches, this one stores them.
func (r *run) store(ctx context.Context) error {
	reading, cancel := context.WithCancel(ctx)
	batches, used := make(chan batch, 1), make(chan batch, 3) // three: one is read, one waits, one is stored
	var ended sync.WaitGroup
	ended.Go(func() { // ends with the input, or when reading does
		defer close(batches)
		r.newReader(reading, batches, used).read()
	})
	defer ended.Wait()
	defer cancel()

	for b := range batches {
		if ctx.Err() != nil && len(b.rows) > 0 { // without rows the last batch only ends the import
			break
		}
		if b.found != nil {
			r.Found(*b.found)
		}
		if err := r.storeBatch(b); err != nil {
			return err
		}
		if b.last { // the import is complete, even after the end of the context
			return nil
		}
		used <- b // does not block: only three batches exist
	}
	return context.Cause(ctx)
}
