package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"plantstore/internal/config"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

func newServe(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until SIGTERM or Ctrl-C. It then responds to the requests that it
has accepted, and exits. A second signal ends it at once. SIGHUP, or a change of the
settings file, reloads the settings that need no restart. If standard input is a
terminal, SIGHUP stops the server, because a closed terminal sends it.

If the store has no token, the server creates the first two and prints them: one
creates plants, the other is for the admin listener. It does so only if standard
output is a terminal. Later it prints the addresses of the console and of the API
document. It writes its log to standard error.`,
		Example: `  plantstore serve
  plantstore serve --db /var/lib/plantstore/plantstore.db --backup-dir /mnt/backup
  plantstore serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // a closed log pipe must not end the server
			hangups := p.reloadSignals()
			defer signal.Stop(hangups)
			switch err := p.settings.Load(cmd.Context(), p.env, cmd.Flags()); {
			case errors.Is(err, terminal.ErrInterrupted):
				return nil // like any stop before the server is ready
			case err != nil:
				return err
			}
			return p.serve(cmd.Context(), config.ChangedFlags(cmd.Flags()), hangups, p.greet)
		},
	}
	p.bindServe(cmd)
	return cmd
}

// serve runs a server. greet is the last step of its start. The caller of the command closes p.log.
func (p *program) serve(
	ctx context.Context, flags map[string]string, hangups <-chan os.Signal,
	greet func(context.Context, serve.Engine, serve.Addresses) error,
) error {
	p.log = serve.OpenLog(p.Stderr, &p.settings)
	serve.TuneRuntime(p.env)
	return serve.Run(ctx, serve.Config{
		Settings: &p.settings, Flags: flags, Env: p.env, Log: p.log, Version: version, By: p.operator(),
		Hangups: hangups, Greet: greet,
	})
}

// reloadSignals returns a channel of the SIGHUPs, also under nohup(1), which starts the program with SIGHUP ignored.
// With a terminal as standard input it returns nil, and SIGHUP interrupts the server like any command: the terminal was
// closed, and the server must not keep its port.
func (p *program) reloadSignals() chan os.Signal {
	if _, ok := terminal.IsTerminal(p.Stdin); ok && !signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	signal.Ignore(syscall.SIGHUP) // also removes it from main's context
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}
