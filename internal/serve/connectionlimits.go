package serve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"syscall"
	"time"

	"plantstore/internal/config"
	"plantstore/internal/listen"
)

// Limits of the connections of a server.
const (
	idleTimeout = 2 * time.Minute // between two requests on a connection

	// incompleteMax is the number of connections of the public listener whose request or response may be incomplete
	// for more than a second.
	incompleteMax = 512

	// incompleteBytesMax is the memory of incomplete requests without a valid credential on a listener, beyond 4 KiB
	// of each.
	incompleteBytesMax = 8 << 20
)

// connectionLimits returns the limits of the public listener.
func connectionLimits(s *config.Settings) listen.Limits {
	return listen.Limits{
		Connections: connectionsMax(descriptorsForClients(), debug.SetMemoryLimit(-1)),
		IdleTimeout: idleTimeout,
		PerAddress:  s.ConnectionsPerAddress,
		Unlimited:   loopback(),
		Incomplete:  incompleteMax,

		IncompleteBytes: incompleteBytesMax,
	}
}

// adminLimits returns the limits of the admin listener. An authenticated request is never evicted, so clients without a
// credential cannot end it. The limit of one address leaves connections to the others; programs on this machine have no
// such limit.
func adminLimits() listen.Limits {
	const perAddressMax, adminIncompleteMax = 128, 64 // connections
	return listen.Limits{
		Connections: adminConnectionsMax(descriptors()),
		IdleTimeout: idleTimeout,
		PerAddress:  perAddressMax,
		Unlimited:   loopback(),
		Uncharged:   loopback(),
		Incomplete:  adminIncompleteMax,

		IncompleteBytes: incompleteBytesMax,
	}
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// openListener opens a listener at the address of a setting or, with OtherPorts, at a free port if that is in use.
func (v *instance) openListener(ctx context.Context, setting string, c listen.Config) (*listen.Listener, error) {
	c.Log, c.Metrics, c.Limits.Proxies = v.log, v.metrics, v.Settings.Proxies()
	l, err := listen.Listen(ctx, c)
	if v.Settings.OtherPorts && errors.Is(err, syscall.EADDRINUSE) {
		c.Address = "127.0.0.1:0"
		l, err = listen.Listen(ctx, c)
	}
	if v.served && errors.Is(err, syscall.EADDRINUSE) {
		v.log.Info("the address is in use; a server of this store may have it", "setting", setting, "address", c.Address)
		return nil, nil //nolint:nilnil // Check needs none
	}
	if err != nil {
		return nil, fmt.Errorf("%w; use another address with --%s", err, setting)
	}
	return l, nil
}
