package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"

	"github.com/spf13/cobra"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

func newExport(p *program) *cobra.Command {
	s := &settings{}
	var format, output string
	var force bool
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
			return p.withStore(cmd, s, sqlite.Config{ReadOnly: true}, func(ctx context.Context, engine store.Engine) error {
				if output == "" {
					to := p.stdout
					if _, ok := isTerminal(to); ok {
						to = &screen{terminal: to}
					}
					return p.export(ctx, engine, to, f, dump.None)
				}
				if sameFile(output, s.db.path) {
					return usagef("output: %s is the store itself", output)
				}
				err := p.exportFile(ctx, engine, output, force, f, compression)
				if err != nil && !errors.Is(err, errInterrupted) {
					return fmt.Errorf("export to %s: %w", output, err)
				}
				return err
			})
		},
	}
	s.bindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "", "`format` to write: csv, jsonl or json")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `file`, which appears when it is complete; - is standard output")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --output names")
	return cmd
}

// exportFile exports to a file, which appears when it is complete.
func (p *program) exportFile(ctx context.Context, engine store.Engine, path string, force bool, f dump.Format, c dump.Compression) error {
	out, err := createOutput(ctx, path, force)
	if err != nil {
		return err
	}
	if err = p.export(ctx, engine, out, f, c); err == nil {
		err = out.Publish()
	}
	return errors.Join(err, out.Discard())
}

func (p *program) export(ctx context.Context, engine store.Engine, w io.Writer, f dump.Format, c dump.Compression) error {
	out, err := dump.NewWriter(w, f, c)
	if err != nil {
		return err
	}
	count, err := p.writePlants(out, w, allRecords(ctx, engine, store.Query{From: math.MinInt64}))
	if err == nil {
		err = out.Close()
	}
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	if !p.quiet {
		fmt.Fprintf(p.stderr, "exported %d plants\n", count)
	}
	if n := out.EmptyTagsLost(); n > 0 {
		fmt.Fprintf(p.stderr, "plants with an empty tag: %d; CSV cannot tell an empty tag from none: use jsonl to keep it\n", n)
	}
	return nil
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

// sameFile reports whether two paths name one file that is there.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
