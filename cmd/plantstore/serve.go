package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"plantstore/internal/config"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

func newServe(p *program) *cobra.Command {
	var check bool
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
document. It writes its log to standard error.

With --check, open and check everything that the server would, print all faults
with which it would not start, and change nothing: addresses, certificates and
secrets, the store, its backups. The log has what is worth a look, such as
settings without effect and an issuer that does not respond. The server of this
store may run. The exit code is 0 if a server would start.`,
		Example: `  plantstore serve
  plantstore serve --check
  plantstore serve --db /var/lib/plantstore/plantstore.db --backup-dir /mnt/backup
  plantstore serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check {
				err := p.settings.Load(cmd.Context(), p.env, cmd.Flags())
				if p.settings.Sources["db"] == "" { // the file cannot be read
					return err
				}
				return p.checkServe(cmd.Context(), err)
			}
			signal.Ignore(syscall.SIGPIPE) // a closed log pipe must not end the server
			hangups := p.reloadSignals()
			defer signal.Stop(hangups)
			switch err := p.settings.Load(cmd.Context(), p.env, cmd.Flags()); {
			case errors.Is(err, terminal.ErrInterrupted):
				return nil // like any stop before the server is ready
			case err != nil:
				return err
			}
			flags := config.ChangedFlags(cmd.Flags())
			delete(flags, "check") // it is no setting
			return p.serve(cmd.Context(), flags, hangups, p.greet)
		},
	}
	p.bindServe(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "print all faults that would prevent a start, and change nothing")
	return cmd
}

// checkServe returns every fault, also in the settings, with which a server would not start.
func (p *program) checkServe(ctx context.Context, faults error) error {
	log := serve.OpenLog(p.Stderr, &p.settings)
	c := serve.Config{Settings: &p.settings, Env: p.env, Log: log, Version: version, By: p.operator()}
	faults = errors.Join(faults, serve.Check(ctx, c))
	log.Close() // its lines come before the faults
	if ctx.Err() != nil {
		return terminal.ErrInterrupted
	}
	if faults == nil {
		_, faults = fmt.Fprintln(p.Stdout, "plantstore serve would start")
	}
	return faults
}

// serve runs a server. greet is the last step of its start. The caller of the command closes p.log.
func (p *program) serve(
	ctx context.Context, flags map[string]string, hangups <-chan os.Signal,
	greet func(context.Context, serve.Engine, serve.Addresses) error,
) error {
	p.log = serve.OpenLog(p.Stderr, &p.settings)
	serve.TuneRuntime(p.env)
	// A crash, and a hang that the watchdog of systemd ends, must not have the exit code of a usage error, after which
	// systemd does not start the server again.
	debug.SetTraceback("crash")
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
