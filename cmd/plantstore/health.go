package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

// healthTimeMax is the time for a health check. The server needs up to 1.5 s to find that a database does not respond.
const healthTimeMax = 3 * time.Second

func newHealth(p *program) *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check that the server on this machine accepts plants",
		Long: `Request /readyz from the admin listener of the server on this machine, for the
health check of a container without a shell. The command prints "ready" and exits
with 0 while the store accepts plants. Otherwise, or after 3 seconds, it prints
the reason and exits with 1.

With --verbose, it also prints each warning of the server, with its remedy and the
name of its runbook. The exit code stays 0 while the store accepts plants.

Give the command the settings of the server: the same variables, the same file or
--admin-listen. Only --verbose needs a token, of the scope admin, in
PLANTSTORE_TOKEN, and then verifies the certificate of another address than
loopback.`,
		Example: `  plantstore health
  plantstore health --verbose
  plantstore health --admin-listen 127.0.0.1:9081`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withSettings(cmd, func(ctx context.Context) error { return p.checkReady(ctx, verbose) })
		},
	}
	p.bindServe(cmd)
	cmd.Flags().BoolVar(&verbose, "verbose", false, "print the warnings of the server too; it needs PLANTSTORE_TOKEN")
	hideAllBut(cmd.Flags(), "verbose", "config", "admin-listen", "tls-cert", "tls-key", "acme-domain", "acme-email")
	return cmd
}

// checkReady requests a readiness check, and returns an error unless the response is 200.
func (p *program) checkReady(ctx context.Context, verbose bool) error {
	const responseBytesMax, warningBytesMax = 1 << 10, 1 << 20
	token := p.env.Vars[config.TokenVariable]
	if verbose && token == "" {
		return config.Usagef("verbose: set %s to a token with the scope admin", config.TokenVariable)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeMax)
	defer cancel()
	at, err := p.settings.ReadyURL(ctx)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return err
	}
	if verbose {
		request.URL.RawQuery = "verbose"
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{ // without a proxy, for one request
		DisableKeepAlives: true,
		// Without --verbose the request has no secret. The certificate does not have the loopback address.
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: !verbose || net.ParseIP(at.Hostname()).IsLoopback(), //nolint:gosec // see above
		},
	}
	response, err := transport.RoundTrip(request) // follows no redirect
	if err != nil {
		return fmt.Errorf("no response from %s within %s: %w; check that the server runs, and its --admin-listen",
			at, healthTimeMax, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		if _, err = fmt.Fprintln(p.Stdout, "ready"); err != nil || !verbose {
			return err
		}
		return p.printWarnings(io.LimitReader(response.Body, warningBytesMax))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, responseBytesMax))
	if err != nil {
		return fmt.Errorf("read the response of %s: %w", at, err)
	}
	return fmt.Errorf("the server is not ready: %s returned %d: %s; see the log of the server",
		at, response.StatusCode, strings.TrimSpace(string(body)))
}

// printWarnings prints the warnings of a response, one a line.
func (p *program) printWarnings(response io.Reader) error {
	var state struct{ Warnings []admin.Warning }
	if err := json.NewDecoder(response).Decode(&state); err != nil {
		return fmt.Errorf("read the warnings of the server: %w", err)
	}
	for _, w := range state.Warnings {
		line := terminal.Printable(fmt.Sprintf("%s %s: %s %s", w.Severity, w.ID, w.Text, w.Remedy))
		if _, err := fmt.Fprintln(p.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}
