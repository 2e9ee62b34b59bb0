package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"plantstore/internal/config"
	"plantstore/internal/remote"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

// program is the environment of the command that runs, and the values of the flags that several commands have.
type program struct {
	terminal.Streams

	env  *config.Environment
	args []string
	log  *serve.Log // buffers stderr for a server; nil in other commands

	settings config.Settings
	server   remote.Flags
	asJSON   bool // --json

	advice string // lines after the error of the command
}

// run runs the program and returns its exit code.
func run(ctx context.Context, args []string, env *config.Environment, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{
		Streams: terminal.Streams{Stdin: stdin, Stdout: stdout, Stderr: stderr},
		env:     env, args: args,
	}
	root := newRoot(p)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if p.log != nil { // so that a blocked reader does not block the last line
		stderr = p.log
		defer p.log.Close()
	}
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if err.Error() != "" {
		for _, fault := range faultsOf(err) {
			fault = strings.ReplaceAll(p.env.Hide(fault, args...), "\n", "; ")
			fmt.Fprintln(stderr, "plantstore:", terminal.Printable(fault))
		}
		for line := range strings.Lines(p.env.Hide(p.advice, args...)) {
			fmt.Fprintln(stderr, terminal.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	return code
}

// faultsOf returns the texts of the errors that errors.Join has joined into err. It does not split a text at its lines:
// the text may come from a file.
func faultsOf(err error) (texts []string) {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // the tree itself
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	}
	var joined []string
	for _, e := range inner {
		if e != nil {
			joined, texts = append(joined, e.Error()), append(texts, faultsOf(e)...)
		}
	}
	if strings.Join(joined, "\n") != err.Error() { // it has a text of its own
		return []string{err.Error()}
	}
	return texts
}

func newRoot(p *program) *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "plantstore",
		Short: "An HTTP service that stores plants",
		Long: `Plant Store is an HTTP service that stores plants in a file or in PostgreSQL.

Start with "plantstore serve". It creates the store, and prints the first tokens
and a curl command that creates a plant. To look around first, run "plantstore
try": a throw-away server with sample plants.

Every setting is a flag (--admin-listen), an environment variable
(PLANTSTORE_ADMIN_LISTEN) and a key of the YAML file that --config names
(admin-listen). A flag takes precedence over the environment, and the environment
over the file. Without --config, every command reads the settings of a package in
/etc/plantstore/plantstore.yaml, unless --db or PLANTSTORE_DB names a store, or
the directory has one of its own, plantstore.db. "plantstore config" prints the
settings in force.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				return p.printVersion()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&showVersion, "version", false, "print the version, as plantstore version does")
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return config.Usagef("%w; see %s --help", flagFault(cmd, err), cmd.CommandPath())
	})
	root.AddCommand(
		newServe(p), newTry(p), newConfig(p), newToken(p), newAudit(p), newWebhook(p),
		newConsole(p), newHealth(p), newGet(p), newCorrect(p), newErase(p), newList(p), newExport(p), newImport(p),
		newBackup(p), newRestore(p), newVerify(p), newMigrate(p), newMove(p), newPromote(p), newVersion(p),
	)
	root.InitDefaultCompletionCmd() // before complete; Cobra would add them later
	root.InitDefaultHelpCmd()
	for _, sub := range root.Commands() {
		switch sub.Name() {
		case "completion":
			for _, shell := range sub.Commands() {
				shell.Example = "  plantstore completion " + shell.Name() + " > FILE"
			}
		case "help":
			sub.Run, sub.RunE = nil, showHelp // Cobra's own help succeeds for an unknown command
		}
	}
	complete(root)
	return root
}

// complete completes a command and its subcommands, when all of them have their flags.
func complete(cmd *cobra.Command) {
	if !cmd.Runnable() { // a group; Cobra checks the arguments of a command that runs
		cmd.Args = cobra.NoArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	checkArgs(cmd)
	bindCompletion(cmd)
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// showHelp prints the help of the command that the arguments name.
func showHelp(cmd *cobra.Command, args []string) error {
	named, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return config.Usagef("%w; see %s --help", argsFault(named, rest), named.CommandPath())
	}
	named.InitDefaultHelpFlag()
	return named.Help()
}
