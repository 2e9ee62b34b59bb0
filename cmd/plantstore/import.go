package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/serve"
	"plantstore/internal/store"
	"plantstore/internal/terminal"
)

func newImport(p *program) *cobra.Command {
	var format, rejects string
	var force, create bool
	onConflict := string(importer.Fail)
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Read plants from a file or standard input into the store",
		Long: `Read plants from a file, or from standard input if FILE is -, into the store. The
server may run at the same time. The end of the file name (.csv, .jsonl or .json)
selects the format; import detects gzip and zstd by the content.

A plant that is stored with the same content counts as existing, so you can run an
interrupted import again. If the ids do not ascend, import sorts the rows and
stores them when it has read the whole file. It reports each invalid row with its
line and continues. A row that conflicts with a stored plant does not change that
plant. With --on-conflict fail, import reports the row and stops after its batch
of at most 10,000 rows; with report it continues, and with skip it only counts the
row. import prints the first 20 rows that it reports. The exit code is 0 if every
row is stored or skipped, else 1.

--rejects writes each row that is not stored to a file, unchanged, and also the
rows that skip counts.

There is no --server, because a server reports the rows that it has not stored only
at the end. Send the file to its admin API, or upload it in the console.`,
		Example: `  plantstore import plants.csv.gz --rejects refused.csv
  curl -s https://nursery.example/plants.jsonl | plantstore import - --format jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withSettings(cmd, func(ctx context.Context) error {
				job := &importJob{p: p, onConflict: importer.Reaction(onConflict), rejectsPath: rejects, force: force}
				defer func() { _ = job.input.Close() }() // nil for standard input
				if err := job.open(ctx, args[0], format); err != nil {
					return err
				}
				serve.TuneImport(p.env)
				return p.onStore(cmd, creating(create), job.run)
			})
		},
	}
	p.settings.BindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print the counts as a JSON object")
	cmd.Flags().StringVar(&format, "format", "", "`format` of the input: csv, jsonl or json; required for standard input")
	cmd.Flags().Var(config.Choice(&onConflict, importer.Reactions()...), "on-conflict",
		"`reaction` to a row that conflicts with a stored plant: fail, skip or report")
	bindCreate(cmd.Flags(), &create)
	cmd.Flags().Var(config.FileName(&rejects), "rejects",
		"write the rows that are not stored to this `file`, which is complete when import ends")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --rejects names")
	return cmd
}

type importJob struct {
	p           *program
	onConflict  importer.Reaction
	rejectsPath string
	force       bool // rejectsPath may be replaced

	name     string   // the input's
	input    *os.File // nil for standard input
	source   io.Reader
	format   dump.Format
	progress *terminal.Progress

	rejectsFile *terminal.Output // nil without --rejects
	rejects     *dump.Rejects    // nil without --rejects
	counts      importer.Counts
	reported    int64 // rows that are not stored, without the conflicts of importer.Skip

	storesSorted bool // the input has been read, and the rows that were sorted are stored now
}

// open sets the format and opens the input.
func (j *importJob) open(ctx context.Context, path, format string) (err error) {
	j.name = path
	if path == terminal.StreamName && format == "" {
		return config.Usagef("the format of standard input is unknown; give --format")
	}
	if j.format, _, err = fileFormat(path, format); err != nil {
		return err
	}
	source, size := j.p.Stdin, int64(-1)
	if path != terminal.StreamName {
		if j.input, err = terminal.OpenInput(ctx, path); err != nil {
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
	j.progress = j.p.NewProgress(size)
	j.source = j.progress.Count(source)
	return j.checkRejects()
}

// checkRejects returns an error if the rejects would replace the input or the store.
func (j *importJob) checkRejects() error {
	input := j.input
	if input == nil {
		input, _ = j.p.Stdin.(*os.File) // else it is nil, and Stat fails
	}
	in, errIn := input.Stat()
	out, errOut := os.Stat(j.rejectsPath)
	switch {
	case errIn == nil && errOut == nil && in.Mode().IsRegular() && os.SameFile(in, out):
		return config.Usagef("rejects: %s is the input; name another file", j.rejectsPath)
	case config.SameFile(j.rejectsPath, j.p.settings.DB.Path):
		return config.Usagef("rejects: %s is the store; name another file", j.rejectsPath)
	}
	return nil
}

func (j *importJob) openRejects(ctx context.Context) (err error) {
	if j.rejectsPath == "" {
		return nil
	}
	if j.rejectsFile, err = terminal.CreateOutput(ctx, j.rejectsPath, j.force); err != nil {
		return fmt.Errorf("write rejects to %s: %w", j.rejectsPath, err)
	}
	j.rejects = dump.NewRejects(j.rejectsFile, j.format)
	return nil
}

// publishRejects publishes the rejects, even after a failed or interrupted import.
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

// run imports all rows and prints the counts.
func (j *importJob) run(ctx context.Context, engine serve.Engine) error {
	if err := j.openRejects(ctx); err != nil {
		return err
	}
	j.progress.Rows(0)
	err := j.store(ctx, engine)
	j.progress.End()
	j.reportRest()
	err = errors.Join(err, j.publishRejects())
	c := j.counts
	j.p.audit(ctx, engine, audit.PlantsImport, fileDetail(j.name), resultDetail(err),
		countDetail("created", c.Created), countDetail("existing", c.Existing),
		countDetail("conflicting", c.Conflicting), countDetail("invalid", c.Invalid))
	err = errors.Join(err, j.p.result(c, "created %d, existing %d, conflicting %d, invalid %d\n",
		c.Created, c.Existing, c.Conflicting, c.Invalid))
	if errors.Is(err, terminal.ErrInterrupted) {
		fmt.Fprintln(j.p.Stderr, "interrupted: the counted plants are stored; run the same command again to continue")
	}
	switch {
	case err != nil:
		return err
	case c.Invalid > 0 || c.Conflicting > 0 && j.onConflict != importer.Skip:
		return fmt.Errorf("%d rows were not stored", c.Invalid+c.Conflicting)
	}
	return nil
}

// store imports the rows. It finishes a batch after an interruption, so the batch has a time limit of its own.
func (j *importJob) store(ctx context.Context, engine serve.Engine) (err error) {
	const batchRows, batchBytes = 10_000, 8 << 20
	sortDir := "" // the directory for temporary files
	if db := j.p.settings.DB.Path; db != "" {
		sortDir = filepath.Dir(db)
	}
	result, err := importer.Run(ctx, importer.Config{
		Source: func(ctx context.Context) io.ReadCloser {
			return io.NopCloser(terminal.InterruptibleReader(ctx, j.source))
		},
		Options:    dump.Options{Format: j.format},
		OnConflict: j.onConflict,
		Sort:       &importer.Sorting{Dir: sortDir, Memory: sortMemory(debug.SetMemoryLimit(-1))},
		BatchRows:  batchRows, BatchBytes: batchBytes,
		Insert: func(batch []store.Create) ([]store.Outcome, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return engine.Insert(ctx, batch)
		},
		Found:    func(dump.Found) {},
		Rejected: j.rejected, KeepRaw: j.rejects != nil,
		Progress: j.show,
	})
	j.counts = result.Counts
	if errors.Is(err, importer.ErrConflict) {
		return fmt.Errorf("%w; see --on-conflict", err)
	}
	return interruption(ctx, err)
}

// sortMemory returns the bytes of a run of sorted rows for a memory limit of the Go runtime. An import has two runs in
// memory. With larger ones it is not faster.
func sortMemory(limit int64) int { return int(min(limit, serve.ImportBytes) / 8) }

// show shows the progress: of the input while it is read, then of the rows that were sorted.
func (j *importJob) show(p importer.Progress) {
	if p.All && p.Waiting > 0 || j.storesSorted {
		if !j.storesSorted {
			j.storesSorted = true
			j.progress.Restart()
		}
		j.progress.Stored(p.Rows(), p.Rows()+p.Waiting)
		return
	}
	j.progress.Rows(p.Rows() + p.Waiting)
}

// rejected reports a row that is not stored, and writes it to the rejects.
func (j *importJob) rejected(r importer.Reject) error {
	if !r.Conflict || j.onConflict != importer.Skip {
		if j.reported++; j.reported <= reportedMax {
			j.progress.Line(fmt.Sprintf("line %d: %s", r.Line, r.Reason))
		}
	}
	if j.rejects == nil {
		return nil
	}
	if r.Raw == nil && j.reported <= reportedMax {
		j.progress.Line(fmt.Sprintf("line %d: the row is too long for %s; correct it in the input", r.Line, j.rejectsPath))
	}
	return j.rejects.Write(r.Row)
}

// reportedMax is the number of rows that import prints; a large file can have millions that it does not store.
const reportedMax = 20

// reportRest prints the number of the rows that rejected has not printed.
func (j *importJob) reportRest() {
	rest := j.reported - reportedMax
	advice := "write all of them to a file with --rejects FILE"
	if j.rejects != nil {
		advice = "see " + j.rejectsPath
	}
	if rest > 0 {
		fmt.Fprintf(j.p.Stderr, "%d more rows were not stored; %s\n", rest, advice)
	}
}
