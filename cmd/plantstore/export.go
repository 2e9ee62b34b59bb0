package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/spf13/cobra"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

func newExport(p *program) *cobra.Command {
	s := &settings{}
	var format, output string
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all plants to a file or standard output",
		Long: `Write id, name and tag of all plants, by ascending id, to a file or to standard
output, also while the server runs: every plant that was there at the start is
in it.

The format is that of the file's name (.csv, .jsonl or .json, also with .gz or
.zst behind it), else jsonl. JSON Lines and JSON keep every plant exactly. CSV
keeps everything but the difference between an empty tag and none.`,
		Example: `  plantstore export > plants.jsonl
  plantstore export -o plants.csv.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "-" {
				output = ""
			}
			f, compression, ok := dump.DetectPath(output)
			switch {
			case format != "":
				var err error
				if f, err = dump.ParseFormat(format); err != nil {
					return usagef("format: %w", err)
				}
			case output == "":
				f = dump.JSONL
			case !ok:
				return usagef("the name %s tells no format: give --format", output)
			}
			if asJSON && output == "" {
				return usagef("json: standard output has the plants; name a file with --output")
			}
			return p.withStore(cmd, s, engineOptions{readOnly: true}, func(ctx context.Context, engine store.Engine) error {
				if output == "" {
					return p.exportStdout(ctx, engine, f)
				}
				if sameFile(output, s.db.path) {
					return usagef("output: %s is the store itself", output)
				}
				facts, err := p.exportFile(ctx, engine, output, force, f, compression)
				switch {
				case errors.Is(err, errInterrupted):
					return err
				case err != nil:
					return fmt.Errorf("export to %s: %w", output, err)
				}
				p.sayExported(facts, p.quiet || asJSON)
				if asJSON {
					return writeJSON(p.stdout, facts)
				}
				return nil
			})
		},
	}
	s.bindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "", "`format` to write: csv, jsonl or json")
	cmd.Flags().VarP((*fileName)(&output), "output", "o", "write to this `file`, which appears when it is complete; - is standard output")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --output names")
	bindJSON(cmd.Flags(), &asJSON, "print a JSON object; needs --output")
	return cmd
}

// exportFacts is what export --json prints.
type exportFacts struct {
	File          string           `json:"file"`
	Format        dump.Format      `json:"format"`
	Compression   dump.Compression `json:"compression,omitempty"`
	Plants        int64            `json:"plants"`
	EmptyTagsLost int64            `json:"empty_tags_lost"`
}

// sayExported tells a person what was exported; if quiet, only what was lost.
func (p *program) sayExported(facts exportFacts, quiet bool) {
	if !quiet {
		fmt.Fprintf(p.stderr, "exported %d plants\n", facts.Plants)
	}
	if facts.EmptyTagsLost > 0 {
		fmt.Fprintf(p.stderr, "plants with an empty tag: %d; CSV cannot tell an empty tag from none: use jsonl to keep it\n", facts.EmptyTagsLost)
	}
}

func (p *program) exportStdout(ctx context.Context, engine store.Engine, f dump.Format) error {
	to := interruptibleTo(ctx, p.stdout)
	if _, ok := isTerminal(p.stdout); ok {
		to = &screen{terminal: to}
	}
	facts, err := p.export(ctx, engine, to, f, dump.None)
	if err == nil {
		p.sayExported(facts, p.quiet)
	}
	return err
}

// exportFile exports to a file, which appears when it is complete.
func (p *program) exportFile(ctx context.Context, engine store.Engine, path string, force bool, f dump.Format, c dump.Compression) (facts exportFacts, err error) {
	out, err := createOutput(ctx, path, force)
	if err != nil {
		return facts, err
	}
	if facts, err = p.export(ctx, engine, out, f, c); err == nil {
		err = out.Publish()
	}
	facts.File = path
	return facts, errors.Join(err, out.Discard())
}

func (p *program) export(ctx context.Context, engine store.Engine, w io.Writer, f dump.Format, c dump.Compression) (exportFacts, error) {
	facts := exportFacts{Format: f, Compression: c}
	out, err := dump.NewWriter(w, f, c)
	if err != nil {
		return facts, err
	}
	facts.Plants, err = p.writePlants(out, w, allRecords(ctx, engine, store.Query{From: math.MinInt64}))
	if err == nil {
		err = out.Close()
	}
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	facts.EmptyTagsLost = out.EmptyTagsLost()
	return facts, err
}

// writePlants writes all records to out, which writes to w, and shows its progress unless that would be between plants on
// one terminal.
func (p *program) writePlants(out *dump.Writer, w io.Writer, records iter.Seq2[plant.Record, error]) (count int64, err error) {
	const showEvery = 1000
	progress := p.newProgress(-1)
	defer progress.end()
	_, onScreen := w.(*screen)
	for r, err := range records {
		if err != nil {
			return count, err
		}
		if count%showEvery == 0 && !onScreen {
			progress.plants(count, -1)
		}
		if err := out.Write(r.NewPlant); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}
