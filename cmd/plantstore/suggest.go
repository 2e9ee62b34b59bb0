package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// didYouMean returns the words with which a message about an unknown name goes on: the nearest of the names that there
// are, or nothing if none is near.
func didYouMean(name string, names []string) string {
	const nearMax = 2 // as many characters may be wrong, and not half of them
	nearest, least := "", min(nearMax, len(name)/2)+1
	for _, known := range names {
		if d := distance(name, known); d < least {
			nearest, least = known, d
		}
	}
	if nearest == "" || nearest == name { // a name that is known, and refused here
		return ""
	}
	return " (did you mean " + nearest + "?)"
}

// distance returns how many bytes are to be inserted, deleted, replaced or swapped with the next to make a of b: the
// optimal string alignment distance.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1) // the two rows above
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+wrong)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
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
