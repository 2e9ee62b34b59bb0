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
	var format, output, name, tag string
	var force, skipDamaged bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write plants to a file or standard output",
		Long: `Write id, name and tag of all plants, or of those that --name and --tag select, by
ascending id, to a file or to standard output. The server may run at the same time:
the output has every such plant that was stored when export started.

The end of the file name (.csv, .jsonl or .json, optionally with .gz or .zst)
selects the format; without a file name it is jsonl. CSV does not keep the
difference between an empty tag and no tag; JSON Lines and JSON keep every plant
exactly.

The export fails at a plant whose row does not match its digest, even if --name or
--tag would not select it. With --skip-damaged it names such plants, and writes the
others.

With --server, the token needs the scope plants:read. The audit log of the server
then has the sign-in of the token, and no entry about the export.`,
		Example: `  plantstore export > plants.jsonl
  plantstore export -o plants.csv.gz
  plantstore export --tag tree -o trees.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == terminal.StreamName {
				output = ""
			}
			if output == "" {
				format = cmp.Or(format, string(dump.JSONL))
			}
			f, compression, err := fileFormat(output, format)
			if err != nil {
				return err
			}
			if p.asJSON && output == "" {
				return config.Usagef("json: standard output contains the plants; give a file with --output")
			}
			facts := exportFacts{File: output, Format: f, Compression: compression}
			q := admin.PageQuery{Name: name, Limit: admin.PageMax}
			if cmd.Flags().Changed("tag") {
				q.Tag = plant.Tagged(tag)
			}
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				return p.runExport(ctx, plants(ctx, o, q), facts, force, skipDamaged)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	cmd.Flags().StringVar(&name, "name", "", "export only plants with this `text` in their name, in any case")
	cmd.Flags().StringVar(&tag, "tag", "", "export only plants with this `tag`")
	cmd.Flags().StringVar(&format, "format", "", "`format` to write: csv, jsonl or json")
	cmd.Flags().VarP(config.FileName(&output), "output", "o",
		"write to this `file`, which appears when it is complete; - is standard output")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --output names")
	cmd.Flags().BoolVar(&skipDamaged, "skip-damaged", false, "leave out damaged plants, and name them")
	p.bindJSON(cmd.Flags(), "print a JSON object; needs --output")
	return cmd
}

// exportFacts is the object of export --json.
type exportFacts struct {
	File          string           `json:"file"`
	Format        dump.Format      `json:"format"`
	Compression   dump.Compression `json:"compression,omitempty"`
	Plants        int64            `json:"plants"`
	Damaged       int64            `json:"damaged"`
	EmptyTagsLost int64            `json:"empty_tags_lost"`
}

// runExport exports plants, and reports that to the user and to the audit log.
func (p *program) runExport(
	ctx context.Context, records iter.Seq2[plant.Record, error], facts exportFacts, force, skipDamaged bool,
) error {
	if config.SameFile(facts.File, p.settings.DB.Path) {
		return config.Usagef("output: %s is the store; name another file", facts.File)
	}
	err := p.export(ctx, records, &facts, force, skipDamaged)
	if p.server.URL == "" {
		p.auditExport(ctx, facts, err)
	}
	switch {
	case err != nil && facts.File != "" && !errors.Is(err, terminal.ErrInterrupted):
		return fmt.Errorf("export to %s: %w", facts.File, err)
	case err != nil:
		return err
	}
	p.reportExport(facts)
	if p.asJSON {
		return terminal.WriteJSON(p.Stdout, facts)
	}
	return nil
}

func (p *program) auditExport(ctx context.Context, facts exportFacts, err error) {
	if errors.Is(err, store.ErrBroken) { // the file may be the only copy of its plants
		p.warnUnaudited(errors.New("the store is damaged and stays as it is"))
		return
	}
	p.auditReading(ctx, audit.PlantsExport, fileDetail(cmp.Or(facts.File, terminal.StreamName)),
		countDetail("plants", facts.Plants), resultDetail(err))
}

// reportExport prints the number of plants, unless another output has it, and the numbers of damaged plants and lost
// empty tags.
func (p *program) reportExport(facts exportFacts) {
	if !p.Quiet && !p.asJSON {
		fmt.Fprintf(p.Stderr, "exported %d plants\n", facts.Plants)
	}
	if facts.Damaged > 0 {
		fmt.Fprintf(p.Stderr, "damaged plants that were left out: %d; restore them from a backup\n", facts.Damaged)
	}
	if facts.EmptyTagsLost > 0 {
		fmt.Fprintf(p.Stderr, "plants with an empty tag: %d; CSV does not keep an empty tag; use jsonl to keep it\n",
			facts.EmptyTagsLost)
	}
}

// export writes the plants to the file of facts, which appears when it is complete, or to standard output. It sets the
// counts of facts.
func (p *program) export(
	ctx context.Context, records iter.Seq2[plant.Record, error], facts *exportFacts, force, skipDamaged bool,
) error {
	if facts.File == "" {
		to := terminal.InterruptibleWriter(ctx, p.Stdout)
		if _, ok := terminal.IsTerminal(p.Stdout); ok {
			to = &terminal.Writer{To: to}
		}
		return p.exportTo(ctx, records, to, facts, skipDamaged)
	}
	out, err := terminal.CreateOutput(ctx, facts.File, force)
	if err != nil {
		return err
	}
	if err = p.exportTo(ctx, records, out, facts, skipDamaged); err == nil {
		err = out.Publish()
	}
	return errors.Join(err, out.Discard())
}

// exportTo writes the plants to w. It shows its progress unless w is a terminal.
func (p *program) exportTo(
	ctx context.Context, records iter.Seq2[plant.Record, error], w io.Writer, facts *exportFacts, skipDamaged bool,
) error {
	const showEvery = 1000
	out, err := dump.NewWriter(w, facts.Format, facts.Compression)
	if err != nil {
		return err
	}
	progress := p.NewProgress(-1)
	defer progress.End()
	_, toTerminal := w.(*terminal.Writer)
	for r, err := range records {
		if err != nil {
			return interruption(ctx, err)
		}
		if r.Damaged {
			if !skipDamaged {
				return fmt.Errorf("plant %d %s, or leave the plant out with --skip-damaged", r.ID, damaged)
			}
			progress.Line(fmt.Sprintf("left out plant %d, which %s", r.ID, damaged))
			facts.Damaged++
			continue
		}
		if facts.Plants%showEvery == 0 && !toTerminal {
			progress.Plants(facts.Plants, -1)
		}
		if err := out.Write(r.NewPlant); err != nil {
			return interruption(ctx, err)
		}
		facts.Plants++
	}
	facts.EmptyTagsLost = out.EmptyTagsLost()
	return interruption(ctx, out.Close())
}

// fileFormat returns the format and the compression of a file, from the value of --format, else from its name.
func fileFormat(path, format string) (dump.Format, dump.Compression, error) {
	f, compression, ok := dump.DetectPath(path)
	var err error
	if format != "" {
		f, err = dump.ParseFormat(format)
	} else if !ok {
		return "", "", config.Usagef("the file name %s has no known format; give --format", path)
	}
	if err != nil {
		err = config.Usagef("format: %w", err)
	}
	return f, compression, err
}
