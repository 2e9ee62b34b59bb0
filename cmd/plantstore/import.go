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

	"plantstore/internal/audit"
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
		Long: `Read plants from a file, or from standard input if FILE is -, into the store. The
server may run at the same time. The end of the file name (.csv, .jsonl or .json)
selects the format. import detects gzip and zstd by the content of the file.

A plant that is stored with the same content counts as existing, so you can run an
interrupted import again. import reports each invalid row with its line and
continues. A row with the id of a stored plant and different content does not
change the stored plant. With --on-conflict fail, import reports the row and stops
after its batch of at most 10,000 rows. With report it reports the row and
continues; with skip it counts the row and continues. The exit code is 0 if every
row is stored or skipped, else 1.

--rejects writes each row that is not stored to a file, unchanged. This includes
the rows that skip counts.`,
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
	cmd.Flags().StringVar(&format, "format", "", "`format` of the input: csv, jsonl or json; required for standard input")
	cmd.Flags().Var(&onConflict, "on-conflict",
		"`reaction` to a row that conflicts with a stored plant: fail, skip or report")
	bindCreate(cmd.Flags(), &create)
	cmd.Flags().Var((*fileName)(&rejects), "rejects",
		"write the rows that are not stored to this `file`, which is complete when import ends")
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

	name     string   // of the input
	input    *os.File // nil for standard input
	source   io.Reader
	format   dump.Format
	progress *progress

	rejectsFile *output       // nil without --rejects
	rejects     *dump.Rejects // nil without --rejects
	counts      importCounts
}

// importCounts counts the rows by outcome, in the form of import --json.
type importCounts struct {
	Created     int64 `json:"created"`
	Existing    int64 `json:"existing"` // replays
	Conflicting int64 `json:"conflicting"`
	Invalid     int64 `json:"invalid"`
}

// open sets the format and opens the input.
func (j *importJob) open(ctx context.Context, path, format string) (err error) {
	j.name = path
	detected, _, ok := dump.DetectPath(path)
	switch {
	case format != "":
		if j.format, err = dump.ParseFormat(format); err != nil {
			return usagef("format: %w", err)
		}
	case path == streamArg:
		return usagef("the format of standard input is unknown; give --format")
	case !ok:
		return usagef("the file name %s has no known format; give --format", path)
	default:
		j.format = detected
	}
	source, size := j.p.stdin, int64(-1)
	if path != streamArg {
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

// checkRejects returns an error if the rejects would replace the input or the store.
func (j *importJob) checkRejects(db string) error {
	input := j.input
	if input == nil {
		input, _ = j.p.stdin.(*os.File) // else it is nil, and Stat fails
	}
	in, errIn := input.Stat()
	out, errOut := os.Stat(j.rejectsPath)
	switch {
	case errIn == nil && errOut == nil && in.Mode().IsRegular() && os.SameFile(in, out):
		return usagef("rejects: %s is the input; name another file", j.rejectsPath)
	case sameFile(j.rejectsPath, db):
		return usagef("rejects: %s is the store; name another file", j.rejectsPath)
	}
	return nil
}

func (j *importJob) openRejects(ctx context.Context) (err error) {
	if j.rejectsPath == "" {
		return nil
	}
	if j.rejectsFile, err = createOutput(ctx, j.rejectsPath, j.force); err != nil {
		return fmt.Errorf("write rejects to %s: %w", j.rejectsPath, err)
	}
	j.rejects, err = dump.NewRejects(j.rejectsFile, j.format)
	return err
}

// publishRejects publishes the rejects, also after a failed or interrupted import.
func (j *importJob) publishRejects() error {
	if j.rejects == nil {
		return nil
	}
	err := j.rejects.Close()
	if err == nil {
		err = j.rejectsFile.Publish()
	}
	if err = errors.Join(err, j.rejectsFile.Discard()); err != nil {
		return fmt.Errorf("write rejects to %s: %w", j.rejectsPath, err)
	}
	return nil
}

// close closes the input. run has closed the rejects.
func (j *importJob) close() {
	if j.input != nil {
		_ = j.input.Close()
	}
}

// run imports all rows and prints the counts.
func (j *importJob) run(ctx context.Context, engine store.Engine) error {
	switch state, err := engine.State(ctx); {
	case ctx.Err() != nil: // interrupted: the code below prints counts of 0
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
	j.p.audit(ctx, engine, audit.PlantsImport, fileDetail(j.name), resultDetail(err),
		countDetail("created", c.Created), countDetail("existing", c.Existing),
		countDetail("conflicting", c.Conflicting), countDetail("invalid", c.Invalid))
	err = errors.Join(err, j.printCounts())
	switch {
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(j.p.stderr, "interrupted: the counted plants are stored; run the same command again to continue")
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
	_, err := fmt.Fprintf(j.p.stdout, "created %d, existing %d, conflicting %d, invalid %d\n",
		c.Created, c.Existing, c.Conflicting, c.Invalid)
	return err
}

// importBatch is consecutive rows of the input.
type importBatch struct {
	rows    []importRow
	creates []store.Create // of the valid rows, in order
	err     error          // why the input ended after this batch; nil at the end of the file
}

// importRow is one row of a batch.
type importRow struct {
	dump.Row
	index int // in importBatch.creates; -1 for an invalid row
}

const (
	importBatchRows  = 10_000
	importBatchBytes = 8 << 20
)

// store reads and stores at the same time: another goroutine reads batches, this
// one stores them.
func (j *importJob) store(ctx context.Context, engine store.Engine) error {
	ctx, cancel := context.WithCancel(ctx)
	batches, used := make(chan importBatch, 1), make(chan importBatch, 3) // three: one is read, one waits, one is stored
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
		used <- b // does not block: only three batches exist
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// read sends the batches of the input until the input or ctx ends. It reuses the
// memory of used batches.
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

// rows returns the rows of the input until the input or ctx ends.
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

// add adds a row. It copies the raw row if the rejects may need it.
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

// storeBatch stores a batch and reports the rows that are not stored, in their
// order. It finishes a batch after an interrupt, so that the counts are correct.
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
		if err := j.count(row, outcomes); stop == nil {
			stop = err
		}
	}
	if stop != nil {
		stop = fmt.Errorf("%w; the import stopped after line %d", stop, b.rows[len(b.rows)-1].Line)
	}
	if stop == nil && b.err != nil {
		stop = fmt.Errorf("could not read the rest of the input: %w", b.err)
	}
	j.progress.rows(int64(len(b.rows)))
	return stop
}

// count counts a row by its outcome and reports it if it is not stored. An error
// ends the import after this batch.
func (j *importJob) count(row importRow, outcomes []store.Outcome) error {
	if row.index < 0 {
		j.counts.Invalid++
		j.report(row, row.Err)
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
			j.report(row, fmt.Errorf("id %d: %w", row.Plant.ID, o.Conflict))
		}
		if err := j.reject(row); err != nil || j.onConflict != "fail" {
			return err
		}
		return fmt.Errorf("line %d conflicts with a stored plant; see --on-conflict", row.Line)
	}
}

// report prints the reason for which a row is not stored.
func (j *importJob) report(row importRow, reason error) {
	j.progress.line(fmt.Sprintf("line %d: %s", row.Line, reason))
}

// reject writes a row to the rejects, if --rejects is set.
func (j *importJob) reject(row importRow) error {
	if j.rejects == nil {
		return nil
	}
	if row.Raw == nil {
		j.progress.line(fmt.Sprintf("line %d: the row is too long for %s; correct it in the input", row.Line, j.rejectsPath))
	}
	return j.rejects.Write(row.Row)
}
