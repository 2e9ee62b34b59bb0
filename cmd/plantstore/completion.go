package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/auth"
	"plantstore/internal/dump"
)

// bindCompletion tells a shell, for a command and those below it, which values flags have, and where no file is meant.
func bindCompletion(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		var values []string
		if c, ok := f.Value.(*choice); ok {
			values = c.allowed
		}
		switch f.Name {
		case "format":
			values = []string{string(dump.CSV), string(dump.JSONL), string(dump.JSON)}
		case "scope":
			values = strings.Fields(auth.Grantable.String())
		}
		if values != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // it is a flag
		}
	})
	if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		bindCompletion(sub)
	}
}

// completeTokens completes the names of the tokens that a command can work on. If the store cannot be read, there are no
// names, and nothing is printed into the line that is being written.
func (p *program) completeTokens(s *settings, has func(auth.Token) bool) cobra.CompletionFunc {
	const timeMax = time.Second // after that a person would wonder
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 || s.load(p, cmd) != nil {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeMax)
		defer cancel()
		silent := *p
		silent.stderr = io.Discard
		engine, err := silent.openCommand(ctx, s, engineOptions{mustExist: true})
		if err != nil {
			return nil, directive
		}
		defer func() { _ = engine.Close() }() // nothing was written
		tokens, _ := engine.Tokens(ctx)
		for _, t := range tokens {
			if has(t) && printable(t.Name) == t.Name {
				names = append(names, t.Name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names), directive
	}
}
