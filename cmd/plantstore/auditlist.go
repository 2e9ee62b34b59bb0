package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

func newAuditList(p *program) *cobra.Command {
	var q admin.AuditQuery
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the entries of the audit log, the newest last",
		Long: `List the newest entries of the audit log, the newest one last. server.start has the
settings that differ from their defaults. --json prints every entry with all details
and its hashes.

--since and --until are times, such as 2026-11-22 or 2026-11-22T09:30:00Z, or the
time since then, such as 2h or 7d. --action is an action, such as token.create, or
its part before the dot. --actor is the name or the id of a token or of a user of
the operating system, or the user who ran sudo.`,
		Example: `  plantstore audit list --since 7d --action token
  plantstore audit list --actor alice --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limit, err := p.listLimit(cmd.Flags(), "entries")
			if err != nil {
				return err
			}
			q.Oldest, q.Limit = limit == math.MaxInt, min(limit, admin.PageMax)
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				return p.listAudit(ctx, o, q, limit)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	bindMoment(cmd.Flags(), "since", "print only entries since this `time`", &q.Since)
	bindMoment(cmd.Flags(), "until", "print only entries before this `time`", &q.Until)
	cmd.Flags().StringVar(&q.Action, "action", "", "print only entries of this `action`")
	cmd.Flags().StringVar(&q.Actor, "actor", "", "print only entries of this `actor`")
	bindLimit(cmd.Flags(), "entries")
	p.bindJSON(cmd.Flags(), "print one JSON object per entry and line")
	return cmd
}

// listAudit prints up to limit entries of a query that are not damaged, the newest one last, and reports the others.
func (p *program) listAudit(ctx context.Context, o operations, q admin.AuditQuery, limit int) error {
	out := bufio.NewWriterSize(terminal.InterruptibleWriter(ctx, p.Stdout), 64<<10)
	damaged := 0
	var entries []audit.Entry
	for e, err := range pages(func(cursor string) ([]admin.AuditEntry, string, error) {
		q.Cursor = cursor
		page, err := o.Audit(ctx, q)
		return page.Entries, page.Next, err
	}) {
		switch {
		case err != nil:
		case e.Damage != nil:
			damaged++
			fmt.Fprintf(p.Stderr, "entry %d is damaged: %s\n", e.Sequence, terminal.Printable(e.Damage.Error()))
		case q.Oldest: // the log may be larger than the memory
			err = terminal.WriteJSON(out, e.Entry)
		default:
			entries = append(entries, e.Entry)
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if len(entries) == limit {
			break
		}
	}
	slices.Reverse(entries)
	if err := cmp.Or(p.printEntries(out, entries), out.Flush()); err != nil {
		return err
	}
	if damaged > 0 {
		return fmt.Errorf("%d entries are damaged; run plantstore audit verify", damaged)
	}
	return nil
}

// printEntries prints a table or, with --json, the canonical texts with both hashes as further members.
func (p *program) printEntries(w io.Writer, entries []audit.Entry) error {
	table := terminal.NewTable(w)
	if !p.asJSON {
		table.Row("ENTRY", "TIME", "ACTOR", "ADDRESS", "ACTION", "DETAILS")
	}
	for _, e := range entries {
		if p.asJSON {
			if err := terminal.WriteJSON(w, e); err != nil {
				return err
			}
			continue
		}
		var details []string
		notable, _ := e.Notable()
		for _, d := range notable {
			details = append(details, d.Key+"="+d.Value)
		}
		table.Row(e.Sequence, e.Time, actorText(e.Actor), cmp.Or(e.Address, "-"), e.Action, strings.Join(details, " "))
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

// bindMoment adds a flag for a time.
func bindMoment(f *pflag.FlagSet, name, usage string, at *time.Time) {
	f.Func(name, usage, func(text string) (err error) {
		*at, err = parseMoment(text)
		return err
	})
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
