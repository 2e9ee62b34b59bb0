package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"plantstore/internal/dump"
	"plantstore/internal/store"
)

func newExport(p *program) *cobra.Command {
	s := &settings{}
	var format, output string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all plants to a file or standard output",
		Long: `Write id, name and tag of all plants, by ascending id, to a file or to standard
output, also while the server runs: every plant that was there at the start is
in it.

The format is that of the file's name (.csv, .jsonl or .json, also with .gz or
.zst behind it), else jsonl. JSON Lines and JSON keep every plant exactly. CSV
keeps everything but the difference between an empty tag and none.`,
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
			return p.withStore(cmd, s, true, func(ctx context.Context, engine store.Engine) error {
				if output == "" {
					return p.export(ctx, engine, p.stdout, f, dump.None)
				}
				if sameFile(output, s.db) {
					return usagef("output: %s is the store itself", output)
				}
				err := writeFile(output, func(w io.Writer) error {
					return p.export(ctx, engine, w, f, compression)
				})
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
	return cmd
}

// exportPage is how many plants are read at once: few enough that no read
// transaction keeps the server's checkpoints waiting.
const exportPage = 5000

func (p *program) export(ctx context.Context, engine store.Engine, w io.Writer, f dump.Format, c dump.Compression) error {
	out, err := dump.NewWriter(w, f, c)
	if err != nil {
		return err
	}
	count, q := 0, store.Query{From: math.MinInt64, Limit: exportPage}
	for {
		records, err := engine.List(ctx, q)
		if err != nil {
			if ctx.Err() != nil {
				return errInterrupted
			}
			return err
		}
		for _, r := range records {
			if err := out.Write(r.NewPlant); err != nil {
				return err
			}
		}
		count += len(records)
		if len(records) < exportPage || records[len(records)-1].ID == math.MaxInt64 {
			break
		}
		q.From = records[len(records)-1].ID + 1
	}
	if err := out.Close(); err != nil {
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

// writeFile writes a file that appears under its name only when it is whole
// and on stable storage. What is there and no file, as a device or a pipe, is
// written to as it is.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return errors.New("it is a directory: name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return writeDevice(path, write)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func writeDevice(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// sameFile reports whether two paths name one file that is there.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
