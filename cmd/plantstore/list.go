package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

func newList(p *program) *cobra.Command {
	s := &settings{}
	var tag string
	var after int64
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List plants by ascending id",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := store.Query{From: math.MinInt64, Limit: limit}
			last := cmd.Flags().Changed("after") && after == math.MaxInt64 // no id is greater
			if cmd.Flags().Changed("after") && !last {
				q.From = after + 1
			}
			if cmd.Flags().Changed("tag") {
				q.Tag = plant.Tagged(tag)
			}
			const limitMax = 100_000
			if limit < 1 || limit > limitMax {
				return usagef("limit: %d is out of range: from 1 to %d; for everything there is plantstore export", limit, limitMax)
			}
			return p.withStore(cmd, s, true, func(ctx context.Context, engine store.Engine) error {
				records, err := engine.List(ctx, q)
				if err != nil {
					return err
				}
				if last {
					records = nil
				}
				if asJSON {
					return p.printJSON(records)
				}
				return p.printTable(records, limit)
			})
		},
	}
	s.bindStore(cmd.Flags())
	cmd.Flags().StringVar(&tag, "tag", "", "only plants with exactly this `tag`")
	cmd.Flags().Int64Var(&after, "after", 0, "only plants with a greater `id`")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many `plants`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func (p *program) printJSON(records []plant.Record) error {
	var out []byte
	for _, r := range records {
		out = appendRecord(out, r)
	}
	_, err := p.stdout.Write(out)
	return err
}

func (p *program) printTable(records []plant.Record, limit int) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tTAG\tCREATED\tBY")
	for _, r := range records {
		tag, ok := r.Tag.Get()
		if !ok {
			tag = "-"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", r.ID, printable(r.Name), printable(tag), formatTime(r.CreatedAt), creator(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(records) == limit {
		fmt.Fprintf(p.stderr, "there may be more: go on with --after %d\n", records[len(records)-1].ID)
	}
	return nil
}

// appendRecord appends a record as a line of JSON: the plant's members, and
// created_at (RFC 3339) and created_by (the token's name, null for the operator).
func appendRecord(dst []byte, r plant.Record) []byte {
	dst = r.NewPlant.AppendJSON(dst)
	dst = append(dst[:len(dst)-1], `,"created_at":`...)
	dst = plant.AppendString(dst, r.CreatedAt.Format(time.RFC3339Nano))
	dst = append(dst, `,"created_by":`...)
	if r.CreatedBy == "" {
		dst = append(dst, "null"...)
	} else {
		dst = plant.AppendString(dst, r.CreatedBy)
	}
	return append(dst, '}', '\n')
}

// printable returns a text as a terminal may have it: what would steer the
// terminal, or turn the direction of writing, is shown as an escape.
func printable(text string) string {
	steers := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
	if !strings.ContainsFunc(text, steers) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if steers(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
