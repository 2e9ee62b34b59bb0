package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/dump"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/terminal"
)

func newExport(p *program) *cobra.Command {
	var format, output string
	var force bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all plants to a file or standard output",
		Long: `Write id, name and tag of all plants, by ascending id, to a file or to standard
output. The server may run at the same time: the output has every plant that was
stored when export started.

The end of the file name (.csv, .jsonl or .json, optionally with .gz or .zst)
selects the format; without a file name it is jsonl. JSON Lines and JSON keep every
plant exactly. CSV does not keep the difference between an empty tag and no tag.`,
		Example: `  plantstore export > plants.jsonl
  plantstore export -o plants.csv.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == terminal.StreamName {
				output = ""
			}
			f, compression, ok := dump.DetectPath(output)
			switch {
			case format != "":
				var err error
				if f, err = dump.ParseFormat(format); err != nil {
					return config.Usagef("format: %w", err)
				}
			case output == "":
				f = dump.JSONL
			case !ok:
				return config.Usagef("the file name %s has no known format; give --format", output)
			}
			if p.asJSON && output == "" {
				return config.Usagef("json: standard output contains the plants; give a file with --output")
			}
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				if output == "" {
					facts, err := p.exportStdout(ctx, o, f)
					p.auditExport(ctx, facts, err)
					return err
				}
				if config.SameFile(output, p.settings.DB.Path) {
					return config.Usagef("output: %s is the store; name another file", output)
				}
				facts, err := p.exportFile(ctx, o, output, force, f, compression)
				p.auditExport(ctx, facts, err)
				switch {
				case errors.Is(err, terminal.ErrInterrupted):
					return err
				case err != nil:
					return fmt.Errorf("export to %s: %w", output, err)
				}
				p.reportExport(facts, p.Quiet || p.asJSON)
				if p.asJSON {
					return terminal.WriteJSON(p.Stdout, facts)
				}
				return nil
			})
		},
	}
	p.settings.BindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "", "`format` to write: csv, jsonl or json")
	cmd.Flags().VarP(config.FileName(&output), "output", "o",
		"write to this `file`, which appears when it is complete; - is standard output")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --output names")
	p.bindJSON(cmd.Flags(), "print a JSON object; needs --output")
	return cmd
}

// exportFacts is the object of export --json.
type exportFacts struct {
	File          string           `json:"file"`
	Format        dump.Format      `json:"format"`
	Compression   dump.Compression `json:"compression,omitempty"`
	Plants        int64            `json:"plants"`
	EmptyTagsLost int64            `json:"empty_tags_lost"`
}

func (p *program) auditExport(ctx context.Context, facts exportFacts, err error) {
	if errors.Is(err, store.ErrBroken) { // the file may be the only copy of its plants
		p.warnUnaudited(errors.New("the store is damaged and stays as it is"))
		return
	}
	p.auditReading(ctx, audit.PlantsExport, fileDetail(cmp.Or(facts.File, terminal.StreamName)),
		countDetail("plants", facts.Plants), resultDetail(err))
}

// reportExport prints the number of plants, unless quiet, and of lost empty tags.
func (p *program) reportExport(facts exportFacts, quiet bool) {
	if !quiet {
		fmt.Fprintf(p.Stderr, "exported %d plants\n", facts.Plants)
	}
	if facts.EmptyTagsLost > 0 {
		fmt.Fprintf(p.Stderr, "plants with an empty tag: %d; CSV does not keep an empty tag; use jsonl to keep it\n",
			facts.EmptyTagsLost)
	}
}

func (p *program) exportStdout(ctx context.Context, o operations, f dump.Format) (exportFacts, error) {
	to := terminal.InterruptibleWriter(ctx, p.Stdout)
	if _, ok := terminal.IsTerminal(p.Stdout); ok {
		to = &terminal.Writer{To: to}
	}
	facts, err := p.export(ctx, o, to, f, dump.None)
	if err == nil {
		p.reportExport(facts, p.Quiet)
	}
	return facts, err
}

// exportFile exports to a file, which appears at path when it is complete.
func (p *program) exportFile(
	ctx context.Context, o operations, path string, force bool, f dump.Format, c dump.Compression,
) (facts exportFacts, err error) {
	out, err := terminal.CreateOutput(ctx, path, force)
	if err != nil {
		return facts, err
	}
	if facts, err = p.export(ctx, o, out, f, c); err == nil {
		err = out.Publish()
	}
	facts.File = path
	return facts, errors.Join(err, out.Discard())
}

func (p *program) export(
	ctx context.Context, o operations, w io.Writer, f dump.Format, c dump.Compression,
) (exportFacts, error) {
	facts := exportFacts{Format: f, Compression: c}
	out, err := dump.NewWriter(w, f, c)
	if err != nil {
		return facts, err
	}
	facts.Plants, err = p.writePlants(out, w, plants(ctx, o, admin.PageQuery{Limit: admin.PageMax}))
	if err == nil {
		err = out.Close()
	}
	if err != nil && ctx.Err() != nil {
		err = terminal.ErrInterrupted
	}
	facts.EmptyTagsLost = out.EmptyTagsLost()
	return facts, err
}

// writePlants writes all records to out, which writes to w. It shows its progress unless w is a terminal.
func (p *program) writePlants(
	out *dump.Writer, w io.Writer, records iter.Seq2[plant.Record, error],
) (count int64, err error) {
	const showEvery = 1000
	progress := p.NewProgress(-1)
	defer progress.End()
	_, toTerminal := w.(*terminal.Writer)
	for r, err := range records {
		if err != nil {
			return count, err
		}
		if count%showEvery == 0 && !toTerminal {
			progress.Plants(count, -1)
		}
		if err := out.Write(r.NewPlant); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}
