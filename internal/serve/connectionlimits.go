package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"syscall"
	"time"

	"plantstore/internal/config"
	"plantstore/internal/listen"
)

// Limits of the connections of a server.
const (
	idleTimeout = 2 * time.Minute // of a connection between two requests

	// incompleteMax is the number of connections of the public listener whose request or response may be incomplete
	// for more than a second.
	incompleteMax = 512
)

// connectionLimits returns the limits of the public listener.
func connectionLimits(s *config.Settings, log *slog.Logger) listen.Limits {
	n, reduced := connectionsMax(s.Connections.Max)
	if reduced {
		log.Warn("the limit of open files is too small for connections-max; raise LimitNOFILE", "connections", n)
	}
	return listen.Limits{
		Connections: n,
		IdleTimeout: idleTimeout,
		PerAddress:  s.Connections.PerAddress,
		Unlimited:   loopback(),
		Proxies:     s.Proxies.Prefixes(),
		Incomplete:  incompleteMax,
	}
}

// adminLimits returns the limits of the admin listener. An authenticated request is never evicted, so strangers cannot
// end it. The limit of one address leaves connections to the others; programs on this machine have no such limit.
func adminLimits(s *config.Settings) listen.Limits {
	const perAddressMax, adminIncompleteMax = 128, 64 // connections
	return listen.Limits{
		Connections: adminConnectionsMax(descriptors()),
		IdleTimeout: idleTimeout,
		PerAddress:  perAddressMax,
		Unlimited:   loopback(),
		Proxies:     s.Proxies.Prefixes(),
		Incomplete:  adminIncompleteMax,
	}
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// openListener opens a listener at its address or, with s.otherPorts, at a free port if that is in use.
func openListener(ctx context.Context, s *config.Settings, c listen.Config) (*listen.Listener, error) {
	l, err := listen.Listen(ctx, c)
	if s.OtherPorts && errors.Is(err, syscall.EADDRINUSE) {
		c.Address = "127.0.0.1:0"
		return listen.Listen(ctx, c)
	}
	return l, err
}
