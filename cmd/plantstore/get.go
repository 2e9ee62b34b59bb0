package main

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"plantstore/internal/config"
	"plantstore/internal/plant"
	"plantstore/internal/terminal"
)

func newGet(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show one plant",
		Long: `Show one plant: its id, name and tag, its creation time, and the token that created
it. Write -- before a negative id.`,
		Example: `  plantstore get 7159
  plantstore get 7159 --json
  plantstore get -- -5`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil {
				return config.Usagef("id must be an integer from -9223372036854775808 to 9223372036854775807; got %q", args[0])
			}
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				r, err := o.Plant(ctx, id)
				if err != nil {
					return err
				}
				if p.asJSON {
					return terminal.WriteJSON(p.Stdout, r)
				}
				return printRecord(p.Stdout, r)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print a JSON object")
	return cmd
}

func printRecord(w io.Writer, r plant.Record) error {
	tag, ok := r.Tag.Get()
	if !ok {
		tag = "(none)"
	}
	table := terminal.NewTable(w)
	table.Row("id", r.ID)
	table.Row("name", r.Name)
	table.Row("tag", tag)
	table.Row("created", r.CreatedAt)
	table.Row("created by", creator(r))
	return table.Flush()
}
