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
	"plantstore/internal/plant"
	"plantstore/internal/serve"
	"plantstore/internal/store"
	"plantstore/internal/terminal"
)

func newImport(p *program) *cobra.Command {
	var flags importFlags
	var rejects string
	var force, create, dryRun bool
	onConflict := string(importer.Fail)
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Read plants from a file or standard input into the store",
		Long: `Read plants from a file, or from standard input if FILE is -, into the store. The
server may run at the same time. import finds out the compression, the encoding
and, of a CSV file, the separator and the columns, and prints them. It refuses a
table without the columns id and name, and prints the command that imports it.
--dry-run shows the first plants and counts the rows, and stores nothing.

A plant that is stored with the same content counts as existing, so you can run an
interrupted import again. If the ids do not ascend, import sorts the rows and
stores them when it has read the whole file. It reports each invalid row with its
line and continues. A row that conflicts with a stored plant does not change that
plant. With --on-conflict fail, import reports the row and stops after its batch
of at most 10,000 rows; with report it continues, and with skip it only counts the
row. import prints the first 20 rows that it reports. The exit code is 0 if every
row is stored or skipped, else 1.

--id-from makes an id of the text in columns that are no numbers: the same text
always has the same id. --number-from numbers the rows that are not blank, so the
rows of the same file always have the same ids.

--rejects writes each row that is not stored to a file, unchanged but in UTF-8,
and also the rows that skip counts.

There is no --server, because a server reports the rows that it has not stored only
at the end. Send the file to its admin API, or upload it in the console.`,
		Example: `  plantstore import plants.csv.gz --rejects refused.csv
  plantstore import list.csv --column id=plant_id --column name=species --dry-run
  curl -s https://nursery.example/plants.jsonl | plantstore import -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withSettings(cmd, func(ctx context.Context) (err error) {
				job := &importJob{
					p: p, onConflict: importer.Reaction(onConflict), dryRun: dryRun, rejectsPath: rejects, force: force,
				}
				if job.options, err = flags.options(cmd.Flags(), args[0]); err != nil {
					return err
				}
				defer func() { _ = job.input.Close() }() // nil for standard input
				if err := job.open(ctx, args[0]); err != nil {
					return err
				}
				return job.runOnStore(cmd, create)
			})
		},
	}
	p.settings.BindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print the counts as a JSON object")
	flags.bind(cmd.Flags())
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "store nothing: show what an import would do")
	cmd.Flags().Var(config.Choice(&onConflict, importer.Reactions()...), "on-conflict",
		"`reaction` to a row that conflicts with a stored plant: fail, skip or report")
	bindCreate(cmd.Flags(), &create)
	cmd.Flags().Var(config.FileName(&rejects), "rejects",
		"write the rows that are not stored to this `file`, which is complete when import ends")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --rejects names")
	return cmd
}

// runOnStore opens the store and runs the import. A dry run changes and creates no store.
func (j *importJob) runOnStore(cmd *cobra.Command, create bool) error {
	serve.TuneImport(j.p.env)
	if !j.dryRun {
		return j.p.onStore(cmd, creating(create), j.run)
	}
	err := j.p.onStore(cmd, readOnly, j.run)
	if create && errors.Is(err, store.ErrNoStore) {
		return j.run(cmd.Context(), nil)
	}
	return err
}

type importJob struct {
	p           *program
	onConflict  importer.Reaction
	dryRun      bool
	rejectsPath string
	force       bool // rejectsPath may be replaced

	name     string   // the input's
	input    *os.File // nil for standard input
	source   io.Reader
	options  dump.Options
	found    *dump.Found // nil: the file is not open, or is refused
	progress *terminal.Progress

	rejectsFile *terminal.Output // nil without --rejects
	rejects     *dump.Rejects    // nil without --rejects
	result      importer.Result
	faults      map[plant.Code]bool // of the reported rows
	reported    int64               // rows that are not stored, without the conflicts of importer.Skip

	storesSorted bool // the input has been read, and the rows that were sorted are stored now
}

// open opens the input.
func (j *importJob) open(ctx context.Context, path string) (err error) {
	j.name, j.faults = path, map[plant.Code]bool{}
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
	return nil
}

// publishRejects publishes the rejects, even after a failed or interrupted import.
func (j *importJob) publishRejects() error {
	if j.rejectsFile == nil {
		return nil
	}
	var err error
	if j.rejects != nil {
		err = j.rejects.Close()
	}
	if err == nil {
		err = j.rejectsFile.Publish()
	}
	if err = errors.Join(err, j.rejectsFile.Discard()); err != nil {
		return fmt.Errorf("write rejects to %s: %w", j.rejectsPath, err)
	}
	return nil
}

// run imports all rows and prints the counts. A dry run may have no engine, for a store that does not exist.
func (j *importJob) run(ctx context.Context, engine serve.Engine) error {
	if err := j.openRejects(ctx); err != nil {
		return err
	}
	j.progress.Rows(0)
	err := j.store(ctx, engine)
	j.progress.End()
	j.reportRest()
	err = errors.Join(err, j.publishRejects())
	c := j.result.Counts
	if !j.dryRun {
		j.p.audit(ctx, engine, audit.PlantsImport, fileDetail(j.name), resultDetail(err),
			countDetail("created", c.Created), countDetail("existing", c.Existing),
			countDetail("conflicting", c.Conflicting), countDetail("invalid", c.Invalid))
	}
	if refused, ok := errors.AsType[*dump.HeaderError](err); ok {
		j.p.adviseColumns(refused, j.dryRun)
	}
	if err != nil && j.found == nil && !errors.Is(err, terminal.ErrInterrupted) && !j.p.asJSON {
		return err // no row has been read
	}
	err = errors.Join(err, j.printResult())
	switch {
	case errors.Is(err, terminal.ErrInterrupted) && !j.dryRun:
		fmt.Fprintln(j.p.Stderr, "interrupted: the counted plants are stored; run the same command again to continue")
	case err != nil || c.Invalid == 0 && (c.Conflicting == 0 || j.onConflict == importer.Skip):
	case j.dryRun:
		return fmt.Errorf("%d rows would not be stored", c.Rejected())
	case j.options.NumberFrom != nil:
		return fmt.Errorf("%d rows were not stored; correct them in %s itself, and import it again: "+
			"in another file they would have other numbers", c.Rejected(), j.name)
	default:
		return fmt.Errorf("%d rows were not stored", c.Rejected())
	}
	return err
}

// printResult prints the counts, and the first plants of a dry run.
func (j *importJob) printResult() error {
	c := j.result.Counts
	if j.p.asJSON {
		return terminal.WriteJSON(j.p.Stdout, importFacts{c, j.dryRun, j.found, j.result.First})
	}
	verb, end := "created", ""
	if j.dryRun {
		verb, end = "would create", "; nothing was stored"
		table := terminal.NewTable(j.p.Stdout)
		if len(j.result.First) > 0 {
			table.Row("ID", "NAME", "TAG")
		}
		for _, first := range j.result.First {
			tag, ok := first.Tag.Get()
			if !ok {
				tag = "-"
			}
			table.Row(first.ID, first.Name, tag)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(j.p.Stdout, "%s %d, existing %d, conflicting %d, invalid %d%s\n",
		verb, c.Created, c.Existing, c.Conflicting, c.Invalid, end)
	return err
}

// importFacts is the result of import --json.
type importFacts struct {
	importer.Counts

	DryRun bool             `json:"dry_run,omitempty"`
	Found  *dump.Found      `json:"found,omitempty"`
	First  []plant.NewPlant `json:"first,omitempty"` // of a dry run
}

// store imports the rows. It finishes a batch after an interruption, so the batch has a time limit of its own.
func (j *importJob) store(ctx context.Context, engine serve.Engine) (err error) {
	const batchRows, batchBytes = 10_000, 8 << 20
	sortDir := "" // the directory for temporary files
	if db := j.p.settings.DB.Path; db != "" {
		sortDir = filepath.Dir(db)
	}
	within := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), time.Minute)
	}
	j.result, err = importer.Run(ctx, importer.Config{
		Source: func(ctx context.Context) io.ReadCloser {
			return io.NopCloser(terminal.InterruptibleReader(ctx, j.source))
		},
		Options:    j.options,
		OnConflict: j.onConflict,
		Sort:       &importer.Sorting{Dir: sortDir, Memory: sortMemory(debug.SetMemoryLimit(-1))},
		BatchRows:  batchRows, BatchBytes: batchBytes,
		DryRun: j.dryRun,
		Insert: func(batch []store.Create) ([]store.Outcome, error) {
			ctx, cancel := within()
			defer cancel()
			return engine.Insert(ctx, batch)
		},
		Stored: func(ids []int64, bytesMax int) ([]store.Row, error) {
			if engine == nil {
				return nil, nil
			}
			ctx, cancel := within()
			defer cancel()
			return engine.PlantsByID(ctx, ids, bytesMax)
		},
		ShowStored: true,
		Found:      j.show,
		Rejected:   j.rejected, KeepRaw: j.rejectsFile != nil,
		Progress: j.showProgress,
	})
	if errors.Is(err, importer.ErrConflict) {
		return fmt.Errorf("%w; see --on-conflict", err)
	}
	return interruption(ctx, err)
}

// show prints what was found out about the file, and later which members were ignored.
func (j *importJob) show(f dump.Found) {
	if j.found == nil && j.rejectsFile != nil {
		j.rejects = dump.NewRejects(j.rejectsFile, f.Format)
	}
	j.found = &f
	name := j.name
	if name == terminal.StreamName {
		name = "standard input"
	}
	j.progress.Info(name + ": " + f.String())
}

// sortMemory returns the bytes of a run of sorted rows for a memory limit of the Go runtime. An import has two runs in
// memory. With larger ones it is not faster.
func sortMemory(limit int64) int { return int(min(limit, serve.ImportBytes) / 8) }

// showProgress shows the progress: of the input while it is read, then of the rows that were sorted.
func (j *importJob) showProgress(p importer.Progress) {
	if !j.dryRun && (p.All && p.Waiting > 0 || j.storesSorted) {
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
			j.progress.Line(fmt.Sprintf("%s: %s", r.Place, r.Reason))
		}
		if fault, ok := errors.AsType[*plant.Error](r.Reason); ok {
			j.faults[fault.Code] = true
		}
	}
	if j.rejects == nil {
		return nil
	}
	if r.Raw == nil && j.reported <= reportedMax {
		j.progress.Line(fmt.Sprintf("%s: the row is too long for %s; correct it in the input", r.Place, j.rejectsPath))
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
	if j.faults[plant.CodeBodyNotUTF8] && j.options.Encoding == "" {
		fmt.Fprintln(j.p.Stderr, "for a file that is not UTF-8 see --encoding")
	}
	if j.found == nil || j.found.Format != dump.CSV {
		return
	}
	if j.faults[plant.CodeIDWrongType] || j.faults[plant.CodeIDMissing] {
		fmt.Fprintf(j.p.Stderr, "for ids that are not numbers see --id-from, for rows without ids --%s\n", numberFromFlag)
	}
	if j.faults[plant.CodeNameMissing] {
		fmt.Fprintln(j.p.Stderr, "for rows without a name see --allow-empty-names")
	}
}
