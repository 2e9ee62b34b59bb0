package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/plant"
	"plantstore/internal/terminal"
)

// erasure is a run of plantstore erase.
type erasure struct {
	p *program
	o operations

	selected admin.Erasure
	parts    [][]int64 // of the ids; nil for a selection
	yes      bool
}

func newErase(p *program) *cobra.Command {
	e := &erasure{p: p}
	var creator, tag, from string
	var since, until time.Time
	cmd := &cobra.Command{
		Use:        "erase [ID…]",
		Short:      "Erase plants for good",
		SuggestFor: []string{"delete", "remove", "rm"},
		Long: `Erase plants for good: those with the ids, or all that match each of --creator,
--since, --until and --tag. The command first prints their number and the first of
them. It erases them after a question on a terminal, or with --yes. Write -- before
a negative id.

An erased id is free: a create stores it as new. So revoke the token of a program
that may still send the plants first. A plant that is created again while the
command runs stays. Clients create plants meanwhile. A command that was
interrupted continues when it is run again.

Backups, and the copy of the commits beside them, have the plants until they are
removed: after --backup-keep further scheduled backups; a backup that was made by
hand stays until somebody removes it. The audit log gets the ids and the reason.`,
		Example: `  plantstore erase 7159 7160 --reason ticket-28
  plantstore erase --creator web-shop --since 2026-11-28T09:30:00Z
  plantstore erase --from ids.txt --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("creator") {
				e.selected.Creator = &creator
			}
			if cmd.Flags().Changed("tag") {
				e.selected.Tag = &tag
			}
			if !since.IsZero() {
				e.selected.Since = &since
			}
			if !until.IsZero() {
				e.selected.Until = &until
			}
			return p.erase(cmd, e, args, from)
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	cmd.Flags().StringVar(&creator, "creator", "", "plants that the credential with this `name` or id has created; "+
		"id 7: always the id; 0: the operator")
	bindMoment(cmd.Flags(), "since", "plants that were created since this `time`", &since)
	bindMoment(cmd.Flags(), "until", "plants that were created before this `time`", &until)
	cmd.Flags().StringVar(&tag, "tag", "", "plants with this `tag`")
	cmd.Flags().Var(config.FileName(&from), "from", "plants with the ids in this `file`, one in a line; -: standard input")
	cmd.Flags().StringVar(&e.selected.Reason, "reason", "", "`text` for the audit log")
	cmd.Flags().BoolVar(&e.yes, "yes", false, "erase without a question")
	p.bindJSON(cmd.Flags(), "print the number as a JSON object")
	return cmd
}

func (p *program) erase(cmd *cobra.Command, e *erasure, args []string, from string) error {
	s := e.selected
	some := s.Creator != nil || s.Since != nil || s.Until != nil || s.Tag != nil
	switch {
	case len(args) == 0 && from == "" && !some:
		return config.Usagef("say which plants: give ids, --from, or --creator, --since, --until or --tag")
	case (len(args) > 0 || from != "") && some, len(args) > 0 && from != "":
		return config.Usagef("give ids, or --from, or a selection by --creator, --since, --until and --tag")
	case s.Creator != nil && !utf8.ValidString(*s.Creator), s.Tag != nil && !utf8.ValidString(*s.Tag):
		return config.Usagef("creator and tag must be UTF-8") // --server would send U+FFFD instead
	}
	texts := args
	if from != "" {
		var err error
		if texts, err = p.readLines(cmd.Context(), from); err != nil {
			return err
		}
	}
	ids := make([]int64, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return config.Usagef("id must be an integer from -9223372036854775808 to 9223372036854775807; got %.100q", text)
		}
	}
	slices.Sort(ids)
	e.parts = slices.Collect(slices.Chunk(slices.Compact(ids), admin.EraseMax))
	if from != "" && len(ids) == 0 {
		return config.Usagef("from: %s has no ids", from)
	}
	return p.operate(cmd, existing, func(ctx context.Context, o operations) error {
		e.o = o
		return e.run(ctx)
	})
}

// readLines returns the lines of a file that are not blank, without blanks around them and without a byte order mark.
func (p *program) readLines(ctx context.Context, path string) (lines []string, err error) {
	const bytesMax = 256 << 20 // of ten million ids
	in := p.Stdin
	if path != terminal.StreamName {
		f, err := terminal.OpenInput(ctx, path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	scanner := bufio.NewScanner(io.LimitReader(terminal.InterruptibleReader(ctx, in), bytesMax))
	for scanner.Scan() {
		if line := strings.TrimSpace(strings.TrimPrefix(scanner.Text(), "\uFEFF")); line != "" {
			lines = append(lines, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return lines, nil
}

// run counts the selected plants, asks, and erases them.
func (e *erasure) run(ctx context.Context) error {
	var first []plant.Record
	found, err := e.each(ctx, true, func(part admin.Erased) {
		first = append(first, part.First[:min(len(part.First), 10-len(first))]...)
	})
	if err != nil {
		return err
	}
	if found == 0 {
		return e.p.result(erasedFacts{}, "no plant matches; nothing was erased\n")
	}
	if !e.yes {
		if ok, err := e.confirm(ctx, found, first); err != nil || !ok {
			return err
		}
	}
	erased, err := e.each(ctx, false, func(admin.Erased) {})
	if err != nil {
		return fmt.Errorf("erased %d plants, then: %w; run the command again to continue", erased, err)
	}
	return e.p.result(erasedFacts{erased}, "erased %d plants; backups have them until they are removed\n", erased)
}

// erasedFacts is the output of erase --json.
type erasedFacts struct {
	Plants int64 `json:"plants"`
}

// confirm prints what would be erased, and returns the answer of the person at the terminal. Without a terminal it
// returns false.
func (e *erasure) confirm(ctx context.Context, found int64, first []plant.Record) (bool, error) {
	table := terminal.NewTable(e.p.Stderr)
	table.Row("ID", "NAME", "TAG", "CREATED", "BY")
	for _, r := range first {
		tag, ok := r.Tag.Get()
		if !ok {
			tag = "-"
		}
		table.Row(r.ID, r.Name, tag, r.CreatedAt, creator(r))
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	if rest := found - int64(len(first)); rest > 0 {
		fmt.Fprintf(e.p.Stderr, "and %d more\n", rest)
	}
	if _, ok := terminal.IsTerminal(e.p.Stdin); !ok {
		return false, fmt.Errorf("%d plants would be erased, and nothing was; add --yes to erase them", found)
	}
	fmt.Fprintf(e.p.Stderr, "Erase these %d plants for good? Type yes: ", found)
	answer, err := bufio.NewReader(terminal.InterruptibleReader(ctx, e.p.Stdin)).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		fmt.Fprintln(e.p.Stderr, "nothing was erased")
		return false, ctx.Err()
	}
	return true, nil
}

// each runs the erasure, or a dry run of it, part by part, and returns the number of plants.
func (e *erasure) each(ctx context.Context, dryRun bool, done func(admin.Erased)) (plants int64, err error) {
	s := e.selected
	s.DryRun = dryRun
	for i := 0; ; i++ {
		if i < len(e.parts) {
			s.IDs = e.parts[i]
		}
		if ctx.Err() != nil {
			return plants, context.Cause(ctx)
		}
		part, err := e.o.Erase(ctx, s, e.p.operator())
		if err != nil {
			return plants, err
		}
		plants += part.Plants
		done(part)
		if s.Cursor = part.Next; s.Cursor == "" && i+1 >= len(e.parts) {
			return plants, nil
		}
	}
}

func newCorrect(p *program) *cobra.Command {
	var name, tag string
	var c admin.Correction
	cmd := &cobra.Command{
		Use:        "correct ID [--name NAME] [--tag TAG | --no-tag]",
		Short:      "Correct the name or the tag of a plant",
		SuggestFor: []string{"update", "edit", "change"},
		Long: `Correct the name or the tag of a plant: erase it, and create it with the same id
and the right content, in one transaction. The plant was created now, by the
operator, or with --server by the token.

A program that sends the old content again then gets the error of another plant
with this id. Backups have the old content until they are removed. Write -- before
a negative id.`,
		Example: `  plantstore correct 7159 --name Taxus --tag tree
  plantstore correct 7159 --no-tag --reason ticket-28`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil {
				return config.Usagef("id must be an integer from -9223372036854775808 to 9223372036854775807; got %q", args[0])
			}
			if cmd.Flags().Changed("name") {
				c.Name = &name
			}
			if cmd.Flags().Changed("tag") {
				c.Tag = &tag
			}
			switch {
			case c.Name == nil && c.Tag == nil && !c.NoTag:
				return config.Usagef("say what is right: give --name, --tag or --no-tag")
			case c.Tag != nil && c.NoTag:
				return config.Usagef("give --tag or --no-tag, not both")
			case !utf8.ValidString(name) || !utf8.ValidString(tag):
				return config.Usagef("name and tag must be UTF-8") // --server would send U+FFFD instead
			}
			return p.operate(cmd, existing, func(ctx context.Context, o operations) error {
				r, err := o.Correct(ctx, id, c, p.operator())
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
	cmd.Flags().StringVar(&name, "name", "", "the right `name`")
	cmd.Flags().StringVar(&tag, "tag", "", "the right `tag`")
	cmd.Flags().BoolVar(&c.NoTag, "no-tag", false, "the plant has no tag")
	cmd.Flags().StringVar(&c.Reason, "reason", "", "`text` for the audit log")
	p.bindJSON(cmd.Flags(), "print the corrected plant as a JSON object")
	return cmd
}
