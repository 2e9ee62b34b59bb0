package config

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// ConsoleURL returns the address of the console, from the settings of the server.
func (s *Settings) ConsoleURL() (*url.URL, error) {
	if u := s.SignIn.ConsoleURL; u != nil {
		return u, nil
	}
	host, port, err := net.SplitHostPort(s.AdminListen)
	if err != nil || port == "0" {
		return nil, s.Fault("admin-listen", "the link needs the port of the server; got %q", s.AdminListen)
	}
	ip := net.ParseIP(host)
	loopback := IsLoopback(host)
	u := GuessURL(&net.TCPAddr{IP: ip}, (s.TLS.Cert != "" || s.ACME.Enabled()) && !loopback)
	switch {
	case loopback, ip != nil && !ip.IsUnspecified():
		u.Host = net.JoinHostPort(host, port)
	case len(s.AdminHosts) > 0:
		u.Host = net.JoinHostPort(s.AdminHosts[0], port)
	default:
		u.Host = net.JoinHostPort("127.0.0.1", port)
	}
	return u, nil
}

// ReadyURL returns the URL of the readiness check, from the settings of the server.
func (s *Settings) ReadyURL(ctx context.Context) (*url.URL, error) {
	host, text, err := net.SplitHostPort(s.AdminListen)
	if err != nil {
		return nil, s.Fault("admin-listen", "%w", err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", text)
	if err != nil || port == 0 {
		return nil, s.Fault("admin-listen", "the check needs the port of the server; got %q", s.AdminListen)
	}
	at := &net.TCPAddr{Port: port}
	if host != "" {
		addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("resolve the address of the admin listener: %w", err)
		}
		at.IP, at.Zone = addresses[0].IP, addresses[0].Zone
	}
	secure := (s.TLS.Cert != "" || s.ACME.Enabled()) && !at.IP.IsLoopback()
	return GuessURL(at, secure).JoinPath("readyz"), nil
}

// IsLoopback reports whether a host is localhost or a loopback address.
func IsLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// GuessURL returns a URL at which this machine reaches a listener.
func GuessURL(a net.Addr, secure bool) *url.URL {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}
}
