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
	hosts := hostsOf(&conn.Config)
	if !slices.Contains(u.parameters, "sslmode=prefer") && os.Getenv("PGSSLMODE") == "" {
		if i := slices.IndexFunc(hosts, host.prefersTLS); i >= 0 {
			return nil, fmt.Errorf("the database URL %s: it has no sslmode, and %s is not this machine: "+
				"a server that refuses TLS would receive every plant in clear text; "+
				"add sslmode=verify-full, and sslrootcert=FILE for a certificate of your own authority", u, hosts[i].name)
		}
	}
	if conn.RequireAuth == "" && !u.has("require_auth") {
		conn.RequireAuth = defaultAuth(hosts)
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

// host is a host of the URL, and the protections of the attempts to connect to it.
type host struct {
	name        string
	port        uint16
	remote      bool // it may be another machine
	protections []protection
}

// protection is the protection of a connection.
type protection int

const (
	clearText     protection = iota
	unverifiedTLS            // TLS with any certificate
	verifiedTLS              // TLS with a certificate of a trusted authority
)

// hostsOf returns the hosts in the order in which the driver tries them.
func hostsOf(c *pgconn.Config) (hosts []host) {
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	for _, f := range append([]*pgconn.FallbackConfig{first}, c.Fallbacks...) {
		if n := len(hosts); n == 0 || hosts[n-1].name != f.Host || hosts[n-1].port != f.Port {
			hosts = append(hosts, host{name: f.Host, port: f.Port, remote: isRemote(f.Host, f.Port)})
		}
		last := &hosts[len(hosts)-1]
		switch t := f.TLSConfig; {
		case t == nil:
			last.protections = append(last.protections, clearText)
		case t.InsecureSkipVerify && t.VerifyPeerCertificate == nil:
			last.protections = append(last.protections, unverifiedTLS)
		default:
			last.protections = append(last.protections, verifiedTLS)
		}
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

// prefersTLS reports whether the driver tries a remote host with TLS and then in clear
// text: libpq's default, sslmode=prefer.
func (h host) prefersTLS() bool {
	return h.remote && h.protections[0] != clearText && slices.Contains(h.protections, clearText)
}

// defaultAuth returns the default of require_auth. A server on another machine must
// use SCRAM, which proves that it knows the password. A server on this machine may also
// trust the client, as with peer authentication, but must not ask for the password itself.
func defaultAuth(hosts []host) string {
	if slices.ContainsFunc(hosts, func(h host) bool { return h.remote }) {
		return "scram-sha-256"
	}
	return "!password,!md5"
}

// exposure describes the hosts to which connections may be read or changed on the
// network, for the log; empty if there is no such host.
func exposure(hosts []host) string {
	var exposed []string
	for _, h := range hosts {
		switch {
		case !h.remote:
		case slices.Contains(h.protections, clearText):
			exposed = append(exposed, h.name+" (plants may cross the network in clear text)")
		case slices.Contains(h.protections, unverifiedTLS):
			exposed = append(exposed, h.name+" (the server's certificate is not verified)")
		}
	}
	return strings.Join(exposed, ", ")
}
