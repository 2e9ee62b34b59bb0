package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeMax is the time for a health check. The server needs up to 1.5 s to find that a database does not respond.
const healthTimeMax = 3 * time.Second

func newHealth(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check that the server on this machine accepts plants",
		Long: `Request /readyz from the admin listener of the server on this machine, for the
health check of a container without a shell. The command prints "ready" and exits
with 0 while the store accepts plants. Otherwise, or after 3 seconds, it prints
the reason and exits with 1.

Give the command the settings of the server: the same variables, the same file or
--admin-listen. It needs no token, and does not verify the certificate of the
server.`,
		Example: `  plantstore health
  plantstore health --admin-listen 127.0.0.1:9081
  plantstore health --config /etc/plantstore/plantstore.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.withSettings(cmd, p.checkReady) },
	}
	p.bindServe(cmd)
	hideAllBut(cmd.Flags(), "config", "admin-listen", "tls-cert", "tls-key", "acme-domain", "acme-email")
	return cmd
}

// checkReady requests a readiness check, and returns an error unless the response is 200.
func (p *program) checkReady(ctx context.Context) error {
	const responseBytesMax = 1 << 10
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
	transport := &http.Transport{ // without a proxy, for one request
		DisableKeepAlives: true,
		// The request has no secret, and the certificate does not have the loopback address.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	response, err := transport.RoundTrip(request) // follows no redirect
	if err != nil {
		return fmt.Errorf("no response from %s within %s: %w; check that the server runs, and its --admin-listen",
			at, healthTimeMax, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		_, err = fmt.Fprintln(p.Stdout, "ready")
		return err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, responseBytesMax))
	if err != nil {
		return fmt.Errorf("read the response of %s: %w", at, err)
	}
	return fmt.Errorf("the server is not ready: %s returned %d: %s; see the log of the server",
		at, response.StatusCode, strings.TrimSpace(string(body)))
}
