package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// program is what a command has of the outside world.
type program struct {
	environ map[string]string
	values  []string // of settings in the environment and the file, for hideSecrets
	stdin   io.Reader
	stdout  io.Writer // results
	stderr  io.Writer // everything else: logs, progress, words to a person
	quiet   bool      // --quiet: no progress

	logs *logBuffer // of serve, in front of stderr; nil in other commands
}

// run is the program as a function of its inputs. It returns the exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{environ: map[string]string{}, stdin: stdin, stdout: stdout, stderr: stderr}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		p.environ[name] = value
		if strings.HasPrefix(name, environPrefix) {
			p.values = append(p.values, value)
		}
	}
	root := newRoot(p)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if p.logs != nil { // the last line, too, does not wait for a reader that stalls
		stderr = p.logs
		defer p.logs.Close()
	}
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if message := err.Error(); message != "" {
		message = hideSecrets(message, append(p.values, args...))
		message = strings.ReplaceAll(message, "\n", "; ") // errors that came together
		fmt.Fprintln(stderr, "plantstore:", printable(message))
	}
	return code
}

func newRoot(p *program) *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "plantstore",
		Short: "A store for plants: takes them in over HTTP and keeps them",
		Long: `Plantstore takes plants in over HTTP and keeps them in one file.

Begin with "plantstore serve": it makes the store, and prints a first token and
a curl command that creates a plant.

Every setting is a flag, an environment variable PLANTSTORE_… (--admin-listen is
PLANTSTORE_ADMIN_LISTEN) and a key of the YAML file named by --config. A flag
counts before the environment, and that before the file. "plantstore config"
shows what is in force.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				v := thisVersion()
				return v.print(p.stdout)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&showVersion, "version", false, "show the version, as plantstore version does")
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", flagFault(cmd, err), cmd.CommandPath())
	})
	root.AddCommand(
		newServe(p), newConfig(p), newToken(p),
		newGet(p), newList(p), newExport(p), newImport(p),
		newBackup(p), newRestore(p), newVerify(p), newMigrate(p), newMove(p), newVersion(p),
	)
	root.InitDefaultCompletionCmd() // Cobra would add it only after checkArgs
	for _, sub := range root.Commands() {
		if sub.Name() == "completion" {
			for _, shell := range sub.Commands() {
				shell.Example = "  plantstore completion " + shell.Name() + " > FILE"
			}
		}
	}
	checkArgs(root)
	bindCompletion(root)
	for _, cmd := range root.Commands() {
		if !cmd.Runnable() { // or Cobra would not look at its arguments
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}
