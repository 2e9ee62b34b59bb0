package config

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// ConsoleAddress returns the address of the console, from the settings of the server.
func (s *Settings) ConsoleAddress(ctx context.Context) (*url.URL, error) {
	if u := s.ConsoleURL; u != nil {
		return u, nil
	}
	host, port, err := s.adminAddress()
	if err != nil {
		return nil, err
	}
	secure := s.adminTLS(host)
	switch ip := net.ParseIP(host); {
	case host == "localhost", ip != nil && !ip.IsUnspecified():
	case len(s.AdminHosts) > 0:
		host = s.AdminHosts[0]
	default: // the listener accepts no other name
		if host, err = resolve(ctx, host); err != nil {
			return nil, err
		}
		secure = s.adminTLS(host)
	}
	return GuessURL(net.JoinHostPort(host, port), secure), nil
}

// ReadyURL returns the URL of the readiness check, from the settings of the server.
func (s *Settings) ReadyURL(ctx context.Context) (*url.URL, error) {
	host, port, err := s.adminAddress()
	if err != nil {
		return nil, err
	}
	if host, err = resolve(ctx, host); err != nil {
		return nil, err
	}
	return GuessURL(net.JoinHostPort(host, port), s.adminTLS(host)).JoinPath("readyz"), nil
}

// resolve returns the address of the host of --admin-listen, which may be empty.
func resolve(ctx context.Context, host string) (string, error) {
	if host == "" {
		return "", nil
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return "", fmt.Errorf("resolve the address of the admin listener: %w", err)
	}
	return addresses[0].String(), nil
}

// adminAddress returns the host and the port of --admin-listen, for a command that uses the running server.
func (s *Settings) adminAddress() (host, port string, err error) {
	if host, port, err = net.SplitHostPort(s.AdminListen); err != nil || port == "0" {
		err = s.Fault("admin-listen", "the command needs the port of the server; got %q", s.AdminListen)
	}
	return host, port, err
}

// adminTLS reports whether an admin listener at this host has TLS.
func (s *Settings) adminTLS(host string) bool {
	return (s.TLS.Cert != "" || s.HasACME()) && !IsLoopback(host)
}

// IsLoopback reports whether a host is localhost or a loopback address.
func IsLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// GuessURL returns a URL at which this machine reaches the listener of an address.
func GuessURL(address string, secure bool) *url.URL {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(address)
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}
}
