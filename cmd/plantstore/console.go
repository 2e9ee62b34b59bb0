package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/auth"
	"plantstore/internal/config"
	"plantstore/internal/console"
	"plantstore/internal/serve"
	"plantstore/internal/store"
	"plantstore/internal/terminal"
)

func newConsole(p *program) *cobra.Command {
	var person string
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print a link that signs in to the console once",
		Long: `Print a link that signs a browser in to the console of the server. It works once,
within 15 minutes, with the scopes admin, plants:read and plants:create. With --name
the pages and the audit log name the person who signs in.

The address in the link is --console-url, or else --admin-listen: give the command
the settings of the server. If the browser is on another machine, forward the
port, for example with ssh -L 8081:127.0.0.1:8081.`,
		Example: `  plantstore console --name anna
  plantstore console --db /var/lib/plantstore/plantstore.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("name") {
				if err := checkPerson(person); err != nil {
					return err
				}
			}
			return p.withStore(cmd, existing, func(ctx context.Context, engine serve.Engine) error {
				at, err := p.settings.ConsoleAddress(ctx)
				if err != nil {
					return err
				}
				if terminal.Discards(p.Stdout) {
					return errors.New("standard output is closed or /dev/null, and the link is shown only once")
				}
				t, code := console.NewCode(person)
				_, err = engine.CreateToken(ctx, t, p.operator())
				if errors.Is(err, store.ErrFull) {
					return fmt.Errorf("%w; until then, sign in with an admin token at %s", err, at)
				}
				if err != nil {
					return err
				}
				fmt.Fprintln(p.Stderr, "open this link within 15 minutes; it works once:")
				_, err = fmt.Fprintln(p.Stdout, signInLink(at, code))
				return err
			})
		},
	}
	p.bindServe(cmd)
	cmd.Flags().StringVar(&person, "name", "", "`name` of the person who signs in")
	hideAllBut(cmd.Flags(), "config", "db", "admin-listen", "admin-host", "tls-cert", "acme-domain", "console-url", "name")
	return cmd
}

// checkPerson returns a usage error if a person cannot have a name, which is part of the name of a token.
func checkPerson(name string) error {
	if n := utf8.RuneCountInString(name); n > auth.PersonRunesMax {
		return config.Usagef("name: use at most %d characters; got %d", auth.PersonRunesMax, n)
	}
	return checkNewName(name)
}

// hideAllBut omits flags from the help of a command that accepts the settings of a server and uses only some.
func hideAllBut(f *pflag.FlagSet, names ...string) {
	f.VisitAll(func(flag *pflag.Flag) { flag.Hidden = flag.Hidden || !slices.Contains(names, flag.Name) })
}

func signInLink(at *url.URL, code string) string {
	return at.JoinPath("sign-in").String() + "?" + url.Values{"code": {code}}.Encode()
}
