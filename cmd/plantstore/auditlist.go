package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

func newAuditList(p *program) *cobra.Command {
	var since time.Time
	var actor string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the entries of the audit log, the newest last",
		Long: `List the newest entries of the audit log, the newest one last. --json prints every
entry, one JSON object per line, with its hashes.

--since is a time, such as 2026-11-22 or 2026-11-22T09:30:00Z, or the time since
then, such as 2h or 7d. --actor is the name or the id of a token or of a user of
the operating system, or the user who ran sudo.`,
		Example: `  plantstore audit list --since 7d
  plantstore audit list --actor alice --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const tableMax = 100_000 // a table is in memory until the widths of its columns are known
			switch {
			case limit < 1:
				return config.Usagef("limit: %d is out of range; use at least 1", limit)
			case limit > tableMax && !p.asJSON:
				return config.Usagef("limit: %d is out of range; a table has at most %d entries; use --json for more",
					limit, tableMax)
			case p.asJSON && !cmd.Flags().Changed("limit"):
				limit = 0
			}
			q := admin.AuditQuery{
				Oldest: limit == 0, Since: since, Actor: actor, Limit: min(cmp.Or(limit, admin.PageMax), admin.PageMax),
			}
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				return p.listAudit(ctx, o, q, limit)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	cmd.Flags().Func("since", "print only entries since this `time`", func(text string) (err error) {
		since, err = parseMoment(text)
		return err
	})
	cmd.Flags().StringVar(&actor, "actor", "", "print only entries of this `actor`")
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of `entries`; without it, --json prints all")
	p.bindJSON(cmd.Flags(), "print one JSON object per entry and line")
	return cmd
}

// listAudit prints the entries of a query that are not damaged, the newest one last, and reports the others. limit is
// the largest number of entries; 0: all, as JSON.
func (p *program) listAudit(ctx context.Context, o operations, q admin.AuditQuery, limit int) error {
	out := terminal.InterruptibleWriter(ctx, p.Stdout)
	damaged := 0
	var entries []audit.Entry
	for e, err := range pages(func(cursor string) ([]admin.AuditEntry, string, error) {
		q.Cursor = cursor
		page, err := o.Audit(ctx, q)
		return page.Entries, page.Next, err
	}) {
		switch {
		case err != nil && limit == 0:
			return errors.Join(err, printAuditJSON(out, entries))
		case err != nil:
			return err
		case e.Damage != nil:
			damaged++
			fmt.Fprintf(p.Stderr, "entry %d is damaged: %s\n", e.Sequence, terminal.Printable(e.Damage.Error()))
			continue
		}
		if entries = append(entries, e.Entry); len(entries) == limit {
			break
		}
		if limit == 0 && len(entries) == admin.PageMax {
			if err := printAuditJSON(out, entries); err != nil {
				return err
			}
			entries = entries[:0]
		}
	}
	if limit > 0 {
		slices.Reverse(entries)
	}
	write := printAuditTable
	if p.asJSON {
		write = printAuditJSON
	}
	if err := write(out, entries); err != nil {
		return err
	}
	if damaged > 0 {
		return fmt.Errorf("%d entries are damaged; run plantstore audit verify", damaged)
	}
	return nil
}

// printAuditJSON prints the canonical texts, with both hashes as further members.
func printAuditJSON(w io.Writer, entries []audit.Entry) error {
	var lines []byte
	for _, e := range entries {
		lines = append(e.AppendJSON(lines), '\n')
	}
	_, err := w.Write(terminal.EscapeJSON(lines))
	return err
}

func printAuditTable(w io.Writer, entries []audit.Entry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENTRY\tTIME\tACTOR\tADDRESS\tACTION\tDETAILS")
	for _, e := range entries {
		var details []string
		for _, d := range e.Details {
			details = append(details, d.Key+"="+d.Value)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", e.Sequence, terminal.FormatTime(e.Time),
			terminal.Printable(actorText(e.Actor)), cmp.Or(terminal.Printable(e.Address), "-"),
			terminal.Printable(string(e.Action)), terminal.Printable(strings.Join(details, " ")))
	}
	return table.Flush()
}

// actorText returns an actor for a person.
func actorText(a audit.Actor) string {
	text := strings.TrimSpace(string(a.Kind) + " " + cmp.Or(a.Name, a.ID, "-"))
	if a.SudoUser != "" {
		text += " (sudo: " + a.SudoUser + ")"
	}
	return text
}

// parseMoment returns a time, which a text also names by the duration until now.
func parseMoment(text string) (time.Time, error) {
	if d, err := config.ParseDuration(text); err == nil {
		return time.Now().Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time; use the form 2026-11-22, 2026-11-22T09:30:00Z, 2h or 7d", text)
}
