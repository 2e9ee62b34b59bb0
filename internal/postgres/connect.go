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

// Check resolves a URL with libpq's environment variables and files, as Open
// does, and returns an error if Open would refuse it without connecting.
func (u URL) Check() error {
	_, err := u.resolve()
	return err
}

// resolve returns how to connect. What a store needs of a connection and the
// URL does not set is added: a primary, an end to the waiting for a host that is
// gone, and a server that proves that it knows the password.
func (u URL) resolve() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(u.text)
	if err != nil {
		_, detail, _ := strings.Cut(err.Error(), "`: ") // after the URL, of which pgx shows more than String
		return nil, fmt.Errorf("the database URL %s: %s", u, detail)
	}
	conn := config.ConnConfig
	hosts := hostsOf(&conn.Config)
	if !u.sslmode && os.Getenv("PGSSLMODE") == "" {
		if i := slices.IndexFunc(hosts, host.prefersTLS); i >= 0 {
			return nil, fmt.Errorf("the database URL %s: it has no sslmode, and %s is not this machine: "+
				"a server that refuses TLS would get every plant in clear; add sslmode=verify-full, and sslrootcert=FILE for a certificate of your own authority", u, hosts[i].name)
		}
	}
	if conn.RequireAuth == "" && !slices.Contains(u.given, "require_auth") {
		conn.RequireAuth = defaultAuth(hosts)
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTime
	}
	if !slices.Contains(u.given, "pool_max_conns") {
		config.MaxConns = connsMax
	}
	if conn.ValidateConnect == nil {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "plantstore"
	}
	config.PingTimeout = pingTime
	conn.OnNotice = noteWarning
	return config, nil
}

// host is one that a connection may be made to, and the ways to do so.
type host struct {
	name   string
	port   uint16
	remote bool // not certainly this machine
	ways   []way
}

// way is how a connection may be protected.
type way int

const (
	inClear    way = iota
	unverified     // TLS with whatever certificate the server has
	verified       // TLS with a certificate of an authority that is trusted
)

// hostsOf returns the hosts of a connection in their order.
func hostsOf(c *pgconn.Config) (hosts []host) {
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	for _, f := range append([]*pgconn.FallbackConfig{first}, c.Fallbacks...) {
		if n := len(hosts); n == 0 || hosts[n-1].name != f.Host || hosts[n-1].port != f.Port {
			hosts = append(hosts, host{name: f.Host, port: f.Port, remote: isRemote(f.Host, f.Port)})
		}
		last := &hosts[len(hosts)-1]
		switch t := f.TLSConfig; {
		case t == nil:
			last.ways = append(last.ways, inClear)
		case t.InsecureSkipVerify && t.VerifyPeerCertificate == nil:
			last.ways = append(last.ways, unverified)
		default:
			last.ways = append(last.ways, verified)
		}
	}
	return hosts
}

// isRemote reports whether a host may be another machine. It goes by the text:
// a socket, a loopback address and localhost are this machine. Another name is
// remote, wherever it leads today.
func isRemote(name string, port uint16) bool {
	if network, _ := pgconn.NetworkAddress(name, port); network == "unix" || strings.EqualFold(name, "localhost") {
		return false
	}
	address, err := netip.ParseAddr(name)
	return err != nil || !address.Unmap().IsLoopback()
}

// prefersTLS reports whether a connection to another machine is tried with TLS
// first and then in clear: libpq's default, sslmode=prefer.
func (h host) prefersTLS() bool {
	return h.remote && h.ways[0] != inClear && slices.Contains(h.ways, inClear)
}

// defaultAuth returns the value of require_auth where none is set. A server on
// another machine must authenticate the client in the way in which it proves
// that it knows the password itself. One on this machine may also trust the
// client, as with peer authentication, but gets no password that it could use.
func defaultAuth(hosts []host) string {
	if slices.ContainsFunc(hosts, func(h host) bool { return h.remote }) {
		return "scram-sha-256"
	}
	return "!password,!md5"
}

// exposure returns what a server's log must say of how a connection may be
// read or changed on its way; nothing if it cannot.
func exposure(hosts []host) string {
	var exposed []string
	for _, h := range hosts {
		switch {
		case !h.remote:
		case slices.Contains(h.ways, inClear):
			exposed = append(exposed, h.name+" (plants may cross the network in clear)")
		case slices.Contains(h.ways, unverified):
			exposed = append(exposed, h.name+" (the server's certificate is not verified)")
		}
	}
	return strings.Join(exposed, ", ")
}
