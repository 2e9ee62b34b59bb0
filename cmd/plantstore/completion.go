package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/config"
	"plantstore/internal/dump"
	"plantstore/internal/terminal"
)

// bindCompletion registers the completion of the values of flags and of arguments for a command.
func bindCompletion(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values := config.WordsOf(f.Value)
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
}

// completeToken completes the name of a valid token of a store or, with --server, of a server. If it cannot read the
// names in time, it completes nothing, and prints no error into the command line of the user.
func (p *program) completeToken(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	const timeMax = 3 * time.Second                             // a user waits for the completion
	if len(args) > 0 || p.server.Token == terminal.StreamName { // standard input is the terminal of the user
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), timeMax)
	defer cancel()
	cmd.SetContext(ctx)
	p.Stderr = io.Discard
	var names []string
	_ = p.operate(cmd, existing, func(ctx context.Context, o operations) error {
		for c, err := range credentials(ctx, o, admin.KindToken) {
			if err != nil {
				return err
			}
			if (c.State == auth.StateValid || c.State == auth.StateRotated) && terminal.Printable(c.Name) == c.Name {
				names = append(names, c.Name)
			}
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), directive
}
