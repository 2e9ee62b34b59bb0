package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/console"
	"plantstore/internal/store"
)

func newConsole(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print a link that signs in to the console once",
		Long: `Print a link that signs a browser in to the console of the server. It works once,
within 15 minutes, with the scopes admin, plants:read and plants:create.

The server may run. The address in the link is --console-url, or that of
--admin-listen: give the command the settings of the server. If the browser is on another machine, forward
the port, for example with ssh -L 8081:127.0.0.1:8081.`,
		Example: `  plantstore console
  plantstore console --db /var/lib/plantstore/plantstore.db
  plantstore console --config /etc/plantstore/plantstore.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd, s, engineOptions{mustExist: true}, func(ctx context.Context, engine wholeEngine) error {
				at, err := s.consoleURL()
				if err != nil {
					return err
				}
				t, code := console.NewCode()
				_, err = engine.CreateToken(ctx, t, p.operator())
				if errors.Is(err, store.ErrFull) {
					return fmt.Errorf("%w; until then, sign in with an admin token at %s", err, at)
				}
				if err != nil {
					return err
				}
				fmt.Fprintln(p.stderr, "open this link within 15 minutes; it works once:")
				_, err = fmt.Fprintln(p.stdout, signInLink(at, code))
				return err
			})
		},
	}
	s.bindStore(cmd.Flags())
	s.bindServe(cmd.Flags())
	hideAllBut(cmd.Flags(), "config", "db", "admin-listen", "admin-host", "tls-cert", "acme-domain", "console-url")
	return cmd
}

// hideAllBut omits flags from the help of a command that accepts the settings of a server and uses only some.
func hideAllBut(f *pflag.FlagSet, names ...string) {
	used := map[string]bool{}
	for _, name := range names {
		used[name] = true
	}
	f.VisitAll(func(flag *pflag.Flag) { flag.Hidden = flag.Hidden || !used[flag.Name] })
}

// consoleURL returns the address of the console, from the settings of the server.
func (s *settings) consoleURL() (*url.URL, error) {
	if u := s.signIn.consoleURL.url; u != nil {
		return u, nil
	}
	host, port, err := net.SplitHostPort(string(s.adminListen))
	if err != nil || port == "0" {
		return nil, s.fault("admin-listen", "the link needs the port of the server; got %q", string(s.adminListen))
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	u := guessURL(&net.TCPAddr{IP: ip}, (s.tls.cert != "" || s.acme.enabled()) && !loopback)
	switch {
	case loopback, ip != nil && !ip.IsUnspecified():
		u.Host = net.JoinHostPort(host, port)
	case len(s.adminHost.items) > 0:
		u.Host = net.JoinHostPort(s.adminHost.items[0], port)
	default:
		u.Host = net.JoinHostPort("127.0.0.1", port)
	}
	return u, nil
}

// signInLink returns the link of a sign-in code.
func signInLink(at *url.URL, code string) string {
	return at.JoinPath("sign-in").String() + "?" + url.Values{"code": {code}}.Encode()
}

// openConsole adds the console to the routes of the admin listener. It needs h.operations.
func (h *httpServers) openConsole(s *settings, c console.Config) (err error) {
	c.Operations, c.PublicURL, c.Audit = h.operations, h.url, h.audit
	c.Version, c.Open = version, bool(s.admin.open)
	c.Secure = h.adminTLS || h.consoleURL.Scheme == "https"
	if h.console, err = console.New(c); err != nil {
		return fmt.Errorf("open the console: %w", err)
	}
	return nil
}
