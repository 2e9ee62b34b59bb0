package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
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
	l := &auditList{program: p}
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
			case l.limit < 1:
				return config.Usagef("limit: %d is out of range; use at least 1", l.limit)
			case l.limit > tableMax && !l.asJSON:
				return config.Usagef("limit: %d is out of range; a table has at most %d entries; use --json for more",
					l.limit, tableMax)
			case l.asJSON && !cmd.Flags().Changed("limit"):
				l.limit = 0
			}
			return p.operate(cmd, readOnly, l.run)
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	cmd.Flags().Var(&l.since, "since", "print only entries since this `time`")
	cmd.Flags().StringVar(&l.actor, "actor", "", "print only entries of this `actor`")
	cmd.Flags().IntVar(&l.limit, "limit", 100, "maximum number of `entries`; without it, --json prints all")
	p.bindJSON(cmd.Flags(), "print one JSON object per entry and line")
	return cmd
}

// auditList is one run of audit list.
type auditList struct {
	*program

	since moment
	actor string
	limit int // 0: none

	damaged int // rows that are not entries
}

func (l *auditList) run(ctx context.Context, o operations) error {
	q := admin.AuditQuery{
		Oldest: l.limit == 0, Since: time.Time(l.since), Actor: l.actor,
		Limit: min(cmp.Or(l.limit, admin.PageMax), admin.PageMax),
	}
	entries := l.undamaged(pages(func(cursor string) ([]admin.AuditEntry, string, error) {
		q.Cursor = cursor
		page, err := o.Audit(ctx, q)
		return page.Entries, page.Next, err
	}))
	if l.limit > 0 {
		var newest []audit.Entry
		for e, err := range entries {
			if err != nil {
				return err
			}
			if newest = append(newest, e); len(newest) == l.limit {
				break
			}
		}
		entries = func(yield func(audit.Entry, error) bool) {
			for _, e := range slices.Backward(newest) {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	write := l.printTable
	if l.asJSON {
		write = l.printJSON
	}
	if err := write(terminal.InterruptibleWriter(ctx, l.Stdout), entries); err != nil {
		return err
	}
	if l.damaged > 0 {
		return fmt.Errorf("%d entries are damaged; run plantstore audit verify", l.damaged)
	}
	return nil
}

// undamaged returns the entries that are not damaged, and reports the others.
func (l *auditList) undamaged(all iter.Seq2[admin.AuditEntry, error]) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for e, err := range all {
			if err != nil {
				yield(audit.Entry{}, err)
				return
			}
			if e.Damage != nil {
				l.damaged++
				fmt.Fprintf(l.Stderr, "entry %d is damaged: %s\n", e.Sequence, terminal.Printable(e.Damage.Error()))
				continue
			}
			if !yield(e.Entry, nil) {
				return
			}
		}
	}
}

// printJSON prints the canonical texts, with both hashes as further members.
func (l *auditList) printJSON(w io.Writer, entries iter.Seq2[audit.Entry, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for e, err := range entries {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if _, err := out.Write(terminal.EscapeJSON(append(e.AppendJSON(nil), '\n'))); err != nil {
			return err
		}
	}
	return out.Flush()
}

func (l *auditList) printTable(w io.Writer, entries iter.Seq2[audit.Entry, error]) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENTRY\tTIME\tACTOR\tADDRESS\tACTION\tDETAILS")
	for e, err := range entries {
		if err != nil {
			return errors.Join(err, table.Flush())
		}
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

// moment is a flag with a time, or with a duration before now.
type moment time.Time

func (m *moment) Type() string { return "time" }

func (m *moment) String() string {
	if time.Time(*m).IsZero() {
		return ""
	}
	return time.Time(*m).Format(time.RFC3339)
}

// Set implements pflag.Value.
func (m *moment) Set(text string) error {
	if d, err := config.ParseDuration(text); err == nil {
		*m = moment(time.Now().Add(-d))
		return nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			*m = moment(at)
			return nil
		}
	}
	return fmt.Errorf("%q is not a time; use the form 2026-11-22, 2026-11-22T09:30:00Z, 2h or 7d", text)
}
