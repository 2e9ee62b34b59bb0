package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

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

// readyURL returns the URL of the readiness check, from the settings of the server.
func (s *settings) readyURL(ctx context.Context) (*url.URL, error) {
	host, text, err := net.SplitHostPort(string(s.adminListen))
	if err != nil {
		return nil, s.fault("admin-listen", "%w", err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", text)
	if err != nil || port == 0 {
		return nil, s.fault("admin-listen", "the check needs the port of the server; got %q", string(s.adminListen))
	}
	at := &net.TCPAddr{Port: port}
	if host != "" {
		addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("resolve the address of the admin listener: %w", err)
		}
		at.IP, at.Zone = addresses[0].IP, addresses[0].Zone
	}
	secure := (s.tls.cert != "" || s.acme.enabled()) && !at.IP.IsLoopback()
	return guessURL(at, secure).JoinPath("readyz"), nil
}

// guessURL returns a URL at which this machine reaches a listener.
func guessURL(a net.Addr, secure bool) *url.URL {
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
