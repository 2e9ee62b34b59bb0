package postgres

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Check resolves a URL with libpq's environment variables and files, as Open does. It
// returns the errors that Open would return before it connects.
func (u URL) Check() error {
	_, err := u.resolve()
	return err
}

// serverParameters are the parameters that the driver sends to the server. It would also send
// the name and the value of a parameter that is misspelled.
var serverParameters = []string{
	"application_name", "lock_timeout", "options", "search_path", "statement_timeout", "timezone",
}

// resolve returns the configuration of the connections. Unless the URL sets them, it
// requires a primary and a server that proves that it knows the password, and adds a
// connect timeout for each host.
func (u URL) resolve() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(u.text)
	if err != nil {
		_, detail, _ := strings.Cut(err.Error(), "`: ") // after the URL, because pgx shows more of it than String
		return nil, fmt.Errorf("the database URL %s: %s", u, detail)
	}
	conn := config.ConnConfig
	for name := range conn.RuntimeParams {
		if !slices.Contains(serverParameters, name) { // perhaps a part of a password
			return nil, fmt.Errorf("the database URL %s: a parameter is unknown: "+
				"use those of libpq and pgx, and of the server only %s", u, strings.Join(serverParameters, ", "))
		}
	}
	remote := remoteHosts(&conn.Config)
	if !slices.Contains(u.parameters, "sslmode=prefer") && os.Getenv("PGSSLMODE") == "" {
		if i := slices.IndexFunc(remote, host.prefersTLS); i >= 0 {
			return nil, fmt.Errorf("the database URL %s: it has no sslmode, and %s is not this machine: "+
				"a server that refuses TLS would receive every plant in clear text; "+
				"add sslmode=verify-full, and sslrootcert=FILE for a certificate of your own authority", u, remote[i].name)
		}
	}
	if conn.RequireAuth == "" && !u.has("require_auth") {
		conn.RequireAuth = "!password,!md5" // so that a server that asks for the password does not receive it
		if len(remote) > 0 {
			conn.RequireAuth = "scram-sha-256" // which proves that the server knows the password
		}
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTime
	}
	if !u.has("pool_max_conns") {
		config.MaxConns = connsMax
	}
	if conn.ValidateConnect == nil {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "plantstore"
	}
	config.PingTimeout = pingTime
	conn.OnNotice = recordWarning
	return config, nil
}

// host is another machine in the URL, and how the driver tries to connect to it.
type host struct {
	name     string
	port     uint16
	tlsFirst bool // the first attempt uses TLS

	clearText  bool // an attempt uses no TLS
	unverified bool // an attempt uses TLS and accepts any certificate
}

// remoteHosts returns the hosts that may be other machines, in the order in which the driver tries them.
func remoteHosts(c *pgconn.Config) (hosts []host) {
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	for _, f := range append([]*pgconn.FallbackConfig{first}, c.Fallbacks...) {
		if !isRemote(f.Host, f.Port) {
			continue
		}
		t := f.TLSConfig
		if n := len(hosts); n == 0 || hosts[n-1].name != f.Host || hosts[n-1].port != f.Port {
			hosts = append(hosts, host{name: f.Host, port: f.Port, tlsFirst: t != nil})
		}
		h := &hosts[len(hosts)-1]
		h.clearText = h.clearText || t == nil
		h.unverified = h.unverified || t != nil && t.InsecureSkipVerify && t.VerifyPeerCertificate == nil
	}
	return hosts
}

// isRemote reports whether a host may be another machine. A socket, a loopback address
// and localhost are this machine. Any other name is remote, even if it resolves to a
// loopback address.
func isRemote(name string, port uint16) bool {
	if network, _ := pgconn.NetworkAddress(name, port); network == "unix" || strings.EqualFold(name, "localhost") {
		return false
	}
	address, err := netip.ParseAddr(name)
	return err != nil || !address.Unmap().IsLoopback()
}

// prefersTLS reports whether the driver tries TLS and then clear text: libpq's default,
// sslmode=prefer.
func (h host) prefersTLS() bool { return h.tlsFirst && h.clearText }

// exposure describes the hosts to which connections may be read or changed on the
// network, for the log; empty if there is no such host.
func exposure(hosts []host) string {
	var exposed []string
	for _, h := range hosts {
		switch {
		case h.clearText:
			exposed = append(exposed, h.name+" (plants may cross the network in clear text)")
		case h.unverified:
			exposed = append(exposed, h.name+" (the server's certificate is not verified)")
		}
	}
	return strings.Join(exposed, ", ")
}
