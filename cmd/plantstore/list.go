package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/plant"
	"plantstore/internal/terminal"
)

func newList(p *program) *cobra.Command {
	var tag string
	var after int64
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List plants by ascending id",
		Example: `  plantstore list --tag tree --limit 20
  plantstore list --after 7159 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := admin.PageQuery{}
			if cmd.Flags().Changed("after") {
				q.After = &after
			}
			if cmd.Flags().Changed("tag") {
				q.Tag = plant.Tagged(tag)
			}
			const tableMax = 100_000 // a table is in memory until the widths of its columns are known
			switch {
			case limit < 1:
				return config.Usagef("limit: %d is out of range; use at least 1", limit)
			case limit > tableMax && !p.asJSON:
				return config.Usagef("limit: %d is out of range; a table has at most %d plants; use --json for more",
					limit, tableMax)
			case p.asJSON && !cmd.Flags().Changed("limit"):
				limit = math.MaxInt
			}
			q.Limit = min(limit, admin.PageMax-1) + 1 // the last one shows whether more follow
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				if p.asJSON {
					return printRecords(terminal.InterruptibleWriter(ctx, p.Stdout), plants(ctx, o, q), limit)
				}
				return p.printTable(plants(ctx, o, q), limit)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	cmd.Flags().StringVar(&tag, "tag", "", "print only plants with this `tag`")
	cmd.Flags().Int64Var(&after, "after", 0, "print only plants with a greater `id`")
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of `plants`; without it, --json prints all")
	p.bindJSON(cmd.Flags(), "print one JSON object per line")
	return cmd
}

// printRecords prints up to limit plants, one JSON object per line.
func printRecords(w io.Writer, records iter.Seq2[plant.Record, error], limit int) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	count := 0
	for r, err := range records {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if count++; count > limit {
			break
		}
		line = append(r.AppendJSON(line[:0]), '\n')
		if _, err := out.Write(terminal.EscapeJSON(line)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// printTable prints up to limit plants as a table, and a line on standard error if more follow.
func (p *program) printTable(records iter.Seq2[plant.Record, error], limit int) error {
	table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tTAG\tCREATED\tBY")
	last, count := int64(0), 0
	for r, err := range records {
		if err != nil {
			return errors.Join(err, table.Flush())
		}
		if count++; count > limit {
			break
		}
		last = r.ID
		tag, ok := r.Tag.Get()
		if !ok {
			tag = "-"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n",
			r.ID, terminal.Printable(r.Name), terminal.Printable(tag), terminal.FormatTime(r.CreatedAt), creator(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if count > limit {
		fmt.Fprintf(p.Stderr, "more plants follow; use --after %d for the next ones or --json for all\n", last)
	}
	return nil
}

// creator returns the creator of a plant as text for a terminal.
func creator(r plant.Record) string {
	if r.CreatedBy == "" {
		return "(the operator)"
	}
	return terminal.Printable(r.CreatedBy)
}
