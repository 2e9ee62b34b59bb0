package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/plant"
	"plantstore/internal/terminal"
)

func newList(p *program) *cobra.Command {
	var tag string
	var after int64
	cmd := &cobra.Command{
		Use:        "list [TEXT]",
		Short:      "List plants by ascending id, or those with a text in their name",
		SuggestFor: []string{"ls", "search", "find"},
		Long: `List the plants by ascending id. With TEXT, list only those whose name contains it,
in any case of letters: the command then reads the whole table, because the store
has no index of names.`,
		Example: `  plantstore list --tag tree --limit 20
  plantstore list --after 7159 --json
  plantstore list acer --tag tree`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := admin.PageQuery{Name: strings.Join(args, "")}
		if cmd.Flags().Changed("after") {
			q.After = &after
		}
		if cmd.Flags().Changed("tag") {
			q.Tag = plant.Tagged(tag)
		}
		limit, err := p.listLimit(cmd.Flags(), "plants")
		if err != nil {
			return err
		}
		q.Limit = min(limit, admin.PageMax-1) + 1 // the last one shows whether more follow
		return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
			return p.printPlants(ctx, plants(ctx, o, q), limit)
		})
	}
	p.bindStoreOrServer(cmd.Flags())
	cmd.Flags().StringVar(&tag, "tag", "", "print only plants with this `tag`")
	cmd.Flags().Int64Var(&after, "after", 0, "print only plants with a greater `id`")
	bindLimit(cmd.Flags(), "plants")
	p.bindJSON(cmd.Flags(), "print one JSON object per line")
	return cmd
}

const damaged = "is damaged: its row does not match its digest; restore a backup"

// printPlants prints up to limit plants that are not damaged, and reports the others. After a table it prints a line on
// standard error if more follow.
func (p *program) printPlants(ctx context.Context, records iter.Seq2[plant.Record, error], limit int) error {
	out := bufio.NewWriterSize(terminal.InterruptibleWriter(ctx, p.Stdout), 64<<10)
	table := terminal.NewTable(out)
	if !p.asJSON {
		table.Row("ID", "NAME", "TAG", "CREATED", "BY")
	}
	last, count, damagedPlants := int64(0), 0, 0
	for r, err := range records {
		if err != nil {
			return errors.Join(err, table.Flush(), out.Flush())
		}
		if r.Damaged {
			damagedPlants++
			fmt.Fprintf(p.Stderr, "plant %d %s\n", r.ID, damaged)
			continue
		}
		if count++; count > limit {
			break
		}
		last = r.ID
		if p.asJSON {
			if err := terminal.WriteJSON(out, r); err != nil {
				return err
			}
			continue
		}
		tag, ok := r.Tag.Get()
		if !ok {
			tag = "-"
		}
		table.Row(r.ID, r.Name, tag, r.CreatedAt, creator(r))
	}
	if err := cmp.Or(table.Flush(), out.Flush()); err != nil {
		return err
	}
	if count > limit && !p.asJSON {
		fmt.Fprintf(p.Stderr, "more plants follow; use --after %d for the next ones or --json for all\n", last)
	}
	if damagedPlants > 0 {
		return fmt.Errorf("damaged plants: %d; run plantstore verify", damagedPlants)
	}
	return nil
}

// creator returns the creator of a plant for a person.
func creator(r plant.Record) string { return cmp.Or(r.CreatedBy, "(the operator)") }
