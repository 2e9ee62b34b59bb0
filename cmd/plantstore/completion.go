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

// bindCompletion registers the completion of the values of flags and of arguments for a command and its subcommands.
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
			fixed := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
			_ = cmd.RegisterFlagCompletionFunc(f.Name, fixed) // the flag exists, and is registered once
		}
	})
	if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		bindCompletion(sub)
	}
}

// completeTokens completes the names of the tokens that match. If it cannot read the store it completes nothing, and
// prints no error into the command line of the user.
func (p *program) completeTokens(s *settings, match func(auth.Token) bool) cobra.CompletionFunc {
	const timeMax = time.Second // a user waits for the completion
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
		defer func() { _ = engine.Close() }() // the command only reads
		tokens, _ := engine.Tokens(ctx)
		for _, t := range tokens {
			if match(t) && printable(t.Name) == t.Name {
				names = append(names, t.Name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names), directive
	}
}
