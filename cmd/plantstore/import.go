package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/dump"
	"plantstore/internal/store"
)

func newImport(p *program) *cobra.Command {
	s := &settings{}
	var format, rejects string
	var force, create, asJSON bool
	onConflict := choice{value: "fail", allowed: []string{"fail", "skip", "report"}}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Read plants from a file or standard input into the store",
		Long: `Read plants from a file, or from standard input if it is -, into the store, also
while the server runs. The format is that of the file's name (.csv, .jsonl or
.json); .gz and .zst are recognised by their content.

A plant that is stored already with the same content counts as already there, so
an import that was interrupted can be run again. A row that is no plant is named
with its line and its fault, and the import goes on. If a row has the id of a
stored plant and other content, the stored plant stays, and --on-conflict decides:
fail names the row and stops after its batch of at most 10,000 rows; report names
it and goes on; skip counts it and goes on. The exit code is 0 if every row is
stored (or skipped), else 1.

--rejects writes every row that was read and is not in the store to a file, as it
was, also the rows that skip only counts.`,
		Example: `  plantstore import plants.csv.gz --rejects refused.csv
  curl -s https://nursery.example/plants.jsonl | plantstore import - --format jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			job := &importJob{p: p, onConflict: onConflict.value, rejectsPath: rejects, force: force, asJSON: asJSON}
			if err := job.open(cmd.Context(), args[0], format); err != nil {
				return err
			}
			defer job.close()
			if err := job.checkRejects(s.db.path); err != nil {
				return err
			}
			p.tuneRuntime()
			return p.withStore(cmd, s, engineOptions{mustExist: !create}, job.run)
		},
	}
	s.bindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print the counts as a JSON object")
	cmd.Flags().StringVar(&format, "format", "", "`format` of the input: csv, jsonl or json; needed for standard input")
	cmd.Flags().Var(&onConflict, "on-conflict", "`what` to do when an id is taken by another plant: fail, skip or report")
	bindCreate(cmd.Flags(), &create)
	cmd.Flags().Var((*fileName)(&rejects), "rejects", "write the refused rows to this `file`, to be corrected and imported; it appears when the import ends")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --rejects names")
	return cmd
}

// importJob is one run of import.
type importJob struct {
	p           *program
	onConflict  string
	rejectsPath string
	force       bool // rejectsPath may be replaced
	asJSON      bool

	input    *os.File // nil for standard input
	source   io.Reader
	format   dump.Format
	progress *progress

	rejectsFile *output       // nil if none is wanted
	rejects     *dump.Rejects // nil if none are wanted
	counts      importCounts
}

// importCounts counts the rows by outcome. It is what import --json prints.
type importCounts struct {
	Created     int64 `json:"created"`
	Existing    int64 `json:"existing"` // already there
	Conflicting int64 `json:"conflicting"`
	Invalid     int64 `json:"invalid"`
}

// open finds out the format and opens the input.
func (j *importJob) open(ctx context.Context, path, format string) (err error) {
	detected, _, ok := dump.DetectPath(path)
	switch {
	case format != "":
		if j.format, err = dump.ParseFormat(format); err != nil {
			return usagef("format: %w", err)
		}
	case path == "-":
		return usagef("standard input has no name that tells its format: give --format")
	case !ok:
		return usagef("the name %s tells no format: give --format", path)
	default:
		j.format = detected
	}
	source, size := j.p.stdin, int64(-1)
	if path != "-" {
		if j.input, err = openInput(ctx, path); err != nil {
			return err
		}
		info, err := j.input.Stat()
		if err != nil {
			return err
		}
		if info.IsDir() {
			return fmt.Errorf("%s is a directory", path)
		}
		source, size = j.input, info.Size()
	}
	j.progress = j.p.newProgress(size)
	j.source = j.progress.count(source)
	return nil
}

// checkRejects refuses a file for the rejects that would be lost by that.
func (j *importJob) checkRejects(db string) error {
	input := j.input
	if input == nil {
		input, _ = j.p.stdin.(*os.File) // if it is none, Stat fails
	}
	in, errIn := input.Stat()
	out, errOut := os.Stat(j.rejectsPath)
	switch {
	case errIn == nil && errOut == nil && in.Mode().IsRegular() && os.SameFile(in, out):
		return usagef("rejects: %s is the input itself", j.rejectsPath)
	case sameFile(j.rejectsPath, db):
		return usagef("rejects: %s is the store itself", j.rejectsPath)
	}
	return nil
}

func (j *importJob) openRejects(ctx context.Context) (err error) {
	if j.rejectsPath == "" {
		return nil
	}
	if j.rejectsFile, err = createOutput(ctx, j.rejectsPath, j.force); err != nil {
		return fmt.Errorf("rejects to %s: %w", j.rejectsPath, err)
	}
	j.rejects, err = dump.NewRejects(j.rejectsFile, j.format)
	return err
}

// publishRejects lets the file of the rejects appear, also after an import that failed or was interrupted.
func (j *importJob) publishRejects() error {
	if j.rejects == nil {
		return nil
	}
	err := j.rejects.Close()
	if err == nil {
		err = j.rejectsFile.Publish()
	}
	if err = errors.Join(err, j.rejectsFile.Discard()); err != nil {
		return fmt.Errorf("rejects to %s: %w", j.rejectsPath, err)
	}
	return nil
}

// close closes what the job has only read; what it wrote, run has closed.
func (j *importJob) close() {
	if j.input != nil {
		_ = j.input.Close()
	}
}

// run imports everything, and says what became of it.
func (j *importJob) run(ctx context.Context, engine store.Engine) error {
	switch state, err := engine.State(ctx); {
	case ctx.Err() != nil: // it counts nothing, and says so below
	case err != nil:
		return err
	case state.Move.Phase != "":
		return state.Move.Err()
	}
	if err := j.openRejects(ctx); err != nil {
		return err
	}
	j.progress.rows(0)
	err := j.store(ctx, engine)
	j.progress.end()
	err = errors.Join(err, j.publishRejects())
	c := j.counts
	err = errors.Join(err, j.printCounts())
	switch {
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(j.p.stderr, "interrupted: what is counted is stored; run the same command again to go on")
		return err
	case err != nil:
		return err
	case c.Invalid > 0 || c.Conflicting > 0 && j.onConflict != "skip":
		return fmt.Errorf("%d rows were not stored", c.Invalid+c.Conflicting)
	}
	return nil
}

func (j *importJob) printCounts() error {
	c := j.counts
	if j.asJSON {
		return writeJSON(j.p.stdout, c)
	}
	_, err := fmt.Fprintf(j.p.stdout, "created %d, already there %d, conflicting %d, invalid %d\n", c.Created, c.Existing, c.Conflicting, c.Invalid)
	return err
}

// importBatch is some rows of the input, in order.
type importBatch struct {
	rows    []importRow
	creates []store.Create // of the rows that are plants, in order
	err     error          // why the input ended, if not by itself
}

// importRow is one row on its way: a plant, or refused already.
type importRow struct {
	dump.Row
	index int // in importBatch.creates; -1 if refused
}

const (
	importBatchRows  = 10_000
	importBatchBytes = 8 << 20
)

// store reads and stores at the same time: one goroutine makes batches, this
// one stores them.
func (j *importJob) store(ctx context.Context, engine store.Engine) error {
	ctx, cancel := context.WithCancel(ctx)
	batches, used := make(chan importBatch, 1), make(chan importBatch, 3) // one is made, one waits, one is stored
	done := make(chan struct{})
	go func() { // ends with the input, or when ctx does; this function waits for it
		defer close(done)
		defer close(batches)
		j.read(ctx, batches, used)
	}()
	defer func() { <-done }()
	defer cancel()

	for b := range batches {
		if err := j.storeBatch(engine, b); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		used <- b // has room: there are no more batches than that
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// read makes batches of the input until it ends or ctx does, of the memory of
// used ones if there are any.
func (j *importJob) read(ctx context.Context, to chan<- importBatch, used <-chan importBatch) {
	var b importBatch
	bytes := 0
	send := func() bool {
		select {
		case to <- b:
			bytes = 0
			select {
			case b = <-used:
				b = importBatch{rows: b.rows[:0], creates: b.creates[:0]}
			default:
				b = importBatch{}
			}
			return true
		case <-ctx.Done():
			return false
		}
	}
	for row, err := range j.rows(ctx) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.err = err
			break
		}
		b.add(row, j.rejects != nil)
		if bytes += len(row.Raw); len(b.rows) >= importBatchRows || bytes >= importBatchBytes {
			if !send() {
				return
			}
		}
	}
	send()
}

// rows returns the rows of the input until it ends or ctx does.
func (j *importJob) rows(ctx context.Context) iter.Seq2[dump.Row, error] {
	return func(yield func(dump.Row, error) bool) {
		plain, err := dump.Decompress(interruptible(ctx, j.source))
		if err != nil {
			yield(dump.Row{}, err)
			return
		}
		defer plain.Close()
		dump.Read(plain, j.format)(yield)
	}
}

// add takes a row over. Its text is kept only if it may have to be written.
func (b *importBatch) add(row dump.Row, keepRaw bool) {
	if keepRaw {
		row.Raw = bytes.Clone(row.Raw)
	} else {
		row.Raw = nil
	}
	r := importRow{Row: row, index: -1}
	if row.Err == nil {
		r.index = len(b.creates)
		b.creates = append(b.creates, store.Create{Plant: row.Plant})
	}
	b.rows = append(b.rows, r)
}

// storeBatch stores a batch and reports its refused rows in their order. A
// batch that was begun is finished even if the program is interrupted, so that
// the counts are true.
func (j *importJob) storeBatch(engine store.Engine, b importBatch) error {
	var outcomes []store.Outcome
	if len(b.creates) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		now := time.Now()
		for i := range b.creates {
			b.creates[i].At = now
		}
		var err error
		if outcomes, err = engine.Insert(ctx, b.creates); err != nil {
			return fmt.Errorf("store lines %d to %d: %w", b.rows[0].Line, b.rows[len(b.rows)-1].Line, err)
		}
	}
	var stop error
	for _, row := range b.rows {
		if err := j.account(row, outcomes); stop == nil {
			stop = err
		}
	}
	if stop != nil {
		stop = fmt.Errorf("%w; the import stopped after line %d", stop, b.rows[len(b.rows)-1].Line)
	}
	if stop == nil && b.err != nil {
		stop = fmt.Errorf("the input cannot be read on: %w", b.err)
	}
	j.progress.rows(int64(len(b.rows)))
	return stop
}

// account counts a row that was handled, and names it if it was refused. The
// error is the reason to stop after this batch.
func (j *importJob) account(row importRow, outcomes []store.Outcome) error {
	if row.index < 0 {
		j.counts.Invalid++
		j.name(row, row.Err)
		return j.reject(row)
	}
	switch o := outcomes[row.index]; {
	case o.Created():
		j.counts.Created++
		return nil
	case o.Replayed:
		j.counts.Existing++
		return nil
	default:
		j.counts.Conflicting++
		if j.onConflict != "skip" {
			j.name(row, fmt.Errorf("id %d: %w", row.Plant.ID, o.Conflict))
		}
		if err := j.reject(row); err != nil || j.onConflict != "fail" {
			return err
		}
		return fmt.Errorf("line %d conflicts with a stored plant, see --on-conflict", row.Line)
	}
}

// name tells the user why a row was refused.
func (j *importJob) name(row importRow, why error) {
	j.progress.line(fmt.Sprintf("line %d: %s", row.Line, why))
}

// reject adds a row to the rejects, if they are wanted.
func (j *importJob) reject(row importRow) error {
	if j.rejects == nil {
		return nil
	}
	if row.Raw == nil {
		j.progress.line(fmt.Sprintf("line %d: too long for %s: correct it in the input", row.Line, j.rejectsPath))
	}
	return j.rejects.Write(row.Row)
}
