package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"plantstore/internal/config"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"

	_ "embed"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/dump"
	"plantstore/internal/store"
)

// samples are plants of try, as CSV. They are an excerpt of public data: tools/release/texts/sample-plants.txt has the
// sources and licences.
//
//go:embed samples.csv
var samples string

// notOfTry are the first parts of the names of environment variables that try ignores.
var notOfTry = []string{config.VariablePrefix, "OTEL_", "LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_"}

func newTry(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "try",
		Short: "Run a throw-away server with sample plants",
		Long: `Run a server on loopback with sample plants in a temporary directory, below TMPDIR
if that is set. try prints a link that signs in to the console, and a curl command
with a token that creates a plant. Ctrl-C, SIGTERM or SIGHUP ends the server, and
try removes the directory. A second signal ends try at once: remove the directory
yourself.

The ports are 8080 and 8081, or free ones if these are in use. All other settings
have their defaults: try ignores the environment variables of settings and the
sockets of systemd. It logs warnings and errors only.`,
		Example: `  plantstore try`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.try(cmd.Context()) },
	}
}

// try runs a server on a store in a temporary directory, and removes the directory.
func (p *program) try(ctx context.Context) (err error) {
	signal.Ignore(syscall.SIGPIPE) // a closed standard output must not keep the directory
	dir, err := os.MkdirTemp("", "plantstore-try-*")
	if err != nil {
		return fmt.Errorf("create a temporary directory: %w; set TMPDIR to a writable directory with free space", err)
	}
	defer func() {
		if removal := os.RemoveAll(dir); removal != nil {
			err = errors.Join(err, fmt.Errorf("remove the temporary directory %s: %w; remove it yourself", dir, removal))
		}
	}()
	flags, err := p.trySettings(ctx, dir)
	if err != nil {
		return err
	}
	return p.serve(ctx, flags, nil, p.greetTry)
}

// trySettings sets the settings of try, and returns those that differ from the defaults. It removes the settings, the
// exporter of traces and the sockets of systemd from the environment: they belong to another server, with its
// certificates, webhooks and backups.
func (p *program) trySettings(ctx context.Context, dir string) (flags map[string]string, err error) {
	for name := range p.env.Vars {
		if slices.ContainsFunc(notOfTry, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			delete(p.env.Vars, name)
			_ = os.Unsetenv(name) // libraries read the variables of systemd from the process
		}
	}
	s := &p.settings
	s.OtherPorts = true
	set := pflag.NewFlagSet("try", pflag.ContinueOnError)
	s.BindServe(set)
	if err := errors.Join(set.Set("db", filepath.Join(dir, "plantstore.db")), set.Set("log-level", "warn")); err != nil {
		return nil, err
	}
	return config.ChangedFlags(set), s.Load(ctx, p.env, set)
}

const tryGreeting = `A throw-away server with %d sample plants. Ctrl-C ends it and removes its data.

Console: this link signs in once, within 15 minutes:

%s

Create a plant:

%s

API document:   %s
Data:           %s
Sample plants:  International Plant Names Index, https://www.ipni.org, CC BY 4.0

To keep your plants, run plantstore serve: it stores them in plantstore.db.
`

// greetTry stores the sample plants, creates a token and a sign-in code, and prints how to use them.
func (p *program) greetTry(ctx context.Context, engine serve.Engine, at serve.Addresses) error {
	count, err := storeSamples(ctx, engine)
	if err != nil {
		return fmt.Errorf("store the sample plants: %w", err)
	}
	token, secret := auth.NewToken("first", auth.ScopeCreate, auth.DefaultLifetime)
	signIn, code := console.NewCode("")
	if _, err := engine.CreateFirstTokens(ctx, []auth.Token{token, signIn}, p.operator()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(terminal.InterruptibleWriter(ctx, p.Stdout), tryGreeting, count, signInLink(at.Console, code),
		curlCreate(at, secret), at.Public.JoinPath("docs"), terminal.Printable(filepath.Dir(p.settings.DB.Path)))
	if err != nil && !errors.Is(err, terminal.ErrInterrupted) {
		return fmt.Errorf("print the addresses: %w", err)
	}
	return err
}

// storeSamples stores the sample plants and returns their number.
func storeSamples(ctx context.Context, engine serve.Engine) (int, error) {
	file, err := dump.Open(ctx, strings.NewReader(samples), dump.Options{})
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var batch []store.Create
	for row, err := range file.Rows() {
		if problem := errors.Join(err, row.Err); problem != nil {
			return 0, problem
		}
		batch = append(batch, store.Create{Plant: row.Plant, At: time.Now()})
	}
	_, err = engine.Insert(ctx, batch)
	return len(batch), err
}
