package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valueFault says in plain words why a flag does not take a value. The types
// of this program do so themselves; those of pflag speak of Go's functions.
func valueFault(f *pflag.Flag, value string, err error) error {
	var number *strconv.NumError
	switch {
	case f.Value.Type() == "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is out of range", value)
	case errors.As(err, &number):
		return fmt.Errorf("%q is no whole number", value)
	}
	return err
}

// checkArgs makes every command's complaint about its arguments a usage error.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err != nil && cmd.HasSubCommands() {
				err = unknownCommand(cmd, args[0])
			}
			if err != nil {
				return usagef("%w; see %s --help", err, cmd.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// flagFault says what is wrong with a flag.
func flagFault(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, valueFault(invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap()))
	case !errors.As(err, &unknown):
		return err
	case cmd.HasSubCommands() && cmd.Flags().NArg() > 0: // the flag belongs to it
		return unknownCommand(cmd, cmd.Flags().Arg(0))
	}
	digits := unknown.GetSpecifiedShortnames()
	if digits == "" {
		return fmt.Errorf("%w%s", err, didYouMean("--"+unknown.GetSpecifiedName(), flagNames(cmd.Flags(), "--")))
	}
	if strings.HasPrefix(cmd.Use, "get ") && strings.Trim(digits, "0123456789") == "" {
		return fmt.Errorf("-%s is taken for a flag: put -- before a negative id: %s -- -%[1]s", digits, cmd.CommandPath())
	}
	return err
}

func flagNames(flags *pflag.FlagSet, prefix string) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, prefix+f.Name) })
	return names
}

// unknownCommand is in the words of cobra.NoArgs, which knows no suggestions.
func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("unknown command %q for %q%s", name, cmd.CommandPath(), didYouMean(name, names))
}
