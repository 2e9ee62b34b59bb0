package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

func (p *program) bindQuiet(f *pflag.FlagSet) {
	f.BoolVarP(&p.Quiet, "quiet", "q", false, "show no progress; warnings and errors are still shown")
}

func (p *program) bindJSON(f *pflag.FlagSet, usage string) {
	f.BoolVar(&p.asJSON, "json", false, usage)
}

// bindLimit adds --limit to a command that lists things.
func bindLimit(f *pflag.FlagSet, things string) {
	f.Int("limit", 100, "maximum number of `"+things+"`; without it, --json prints all")
}

// listLimit returns the value of --limit; math.MaxInt: all, as JSON.
func (p *program) listLimit(f *pflag.FlagSet, things string) (int, error) {
	const tableMax = 100_000 // a table is in memory until the widths of its columns are known
	limit, err := f.GetInt("limit")
	switch {
	case p.asJSON && !f.Changed("limit"):
		limit = math.MaxInt
	case limit < 1:
		err = config.Usagef("limit: %d is out of range; use at least 1", limit)
	case limit > tableMax && !p.asJSON:
		err = config.Usagef("limit: %d is out of range; a table has at most %d %s; use --json for more",
			limit, tableMax, things)
	}
	return limit, err
}

// result prints the result of a command: facts with --json, else a text.
func (p *program) result(facts any, format string, args ...any) error {
	if p.asJSON {
		return terminal.WriteJSON(p.Stdout, facts)
	}
	_, err := fmt.Fprintf(p.Stdout, format, args...)
	return err
}

// bindStoreOrServer adds the flags of a command that works on a store or, with --server, on a running server.
func (p *program) bindStoreOrServer(f *pflag.FlagSet) {
	p.settings.BindStore(f)
	p.server.Bind(f)
}

// bindServe adds the flags of all settings, and shows them by group in the help.
func (p *program) bindServe(cmd *cobra.Command) {
	p.settings.BindServe(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n\n%s",
			cmd.UseLine(), cmd.Example, p.settings.Usages(cmd.LocalFlags()))
		return err
	})
}

// checkArgs changes the errors about the arguments of a command to usage errors.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) == nil {
				return nil
			}
			return config.Usagef("%w; see %s --help", argsFault(cmd, args), cmd.CommandPath())
		}
	}
}

// argsFault returns the error of a wrong number of arguments. A command has at most one.
func argsFault(cmd *cobra.Command, args []string) error {
	_, usage, _ := strings.Cut(cmd.Use, " ")
	operand, _, _ := strings.Cut(usage, " ")
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s is missing: %s %[1]s", operand, cmd.CommandPath())
	case cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	case operand == "" && cmd.Flags().Lookup("output") != nil:
		return fmt.Errorf("unexpected argument %q; name the file with --output %[1]s", args[0])
	case operand == "" || strings.HasPrefix(operand, "-"):
		return fmt.Errorf("unexpected argument %q; %s has flags only", args[0], cmd.CommandPath())
	case len(args) == 1: // after help and the name of a command
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return fmt.Errorf("unexpected argument %q after %q; quote an argument that has spaces", args[1], args[0])
}

// flagFault returns the error of an unknown flag or of an invalid value.
func flagFault(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := invalid.GetFlag()
		return fmt.Errorf("--%s: %w", f.Name, config.ValueFault(f, invalid.GetValue(), invalid.Unwrap()))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	switch {
	case !ok:
		return err
	case cmd.HasSubCommands() && cmd.Flags().NArg() > 0: // the flag may belong to the unknown subcommand
		return unknownCommand(cmd, cmd.Flags().Arg(0))
	}
	digits := unknown.GetSpecifiedShortnames()
	if digits == "" {
		return fmt.Errorf("%w%s", err, flagHint(cmd, unknown.GetSpecifiedName()))
	}
	if strings.HasPrefix(cmd.Use, "get ") && strings.Trim(digits, "0123456789") == "" {
		return fmt.Errorf("-%s is not a flag; put -- before a negative id: %s -- -%[1]s", digits, cmd.CommandPath())
	}
	return err
}

// flagHint returns the end of a message about an unknown flag: the flag that other programs have by this name, the
// nearest one of the command, or that serve has it.
func flagHint(cmd *cobra.Command, name string) string {
	if slices.Contains([]string{"port", "host", "address", "bind"}, name) && cmd.Flags().Lookup("listen") != nil {
		return "; use --listen HOST:PORT"
	}
	isName := func(s config.Setting) bool { return s.Name == name }
	if slices.ContainsFunc(new(config.Settings).AllSettings(), isName) {
		return "; it is a setting of plantstore serve"
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return config.DidYouMean("--"+name, names)
}

// unknownCommand returns the error of cobra.NoArgs with a suggestion, or with the commands of a group.
func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
		if slices.Contains(sub.SuggestFor, name) {
			return fmt.Errorf("unknown command %q for %q; use %s", name, cmd.CommandPath(), sub.CommandPath())
		}
	}
	hint := config.DidYouMean(name, names)
	if hint == "" && cmd.HasParent() {
		hint = "; use " + strings.Join(names, ", ")
	}
	return fmt.Errorf("unknown command %q for %q%s", name, cmd.CommandPath(), hint)
}
