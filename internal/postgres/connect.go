package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Check resolves a URL with libpq's environment variables and files, as Open does. It returns the errors that Open
// would return before it connects.
func (u URL) Check() error {
	_, err := u.resolve()
	return err
}

// serverParameters are the parameters that the driver sends to the server. It would also send the name and the value of
// a parameter that is misspelled.
var serverParameters = []string{
	"application_name", "lock_timeout", "options", "search_path", "statement_timeout", "timezone",
}

// fixedParameters are the parameters of libpq that the driver does not know, with the values for what the program does
// anyway (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS).
var fixedParameters = map[string][]string{
	"client_encoding": {"utf8", "utf-8", "auto"}, "fallback_application_name": nil, "gssdelegation": {"0"},
	"gssencmode": {"disable", "prefer"}, "gsslib": nil, "hostaddr": nil,
	"keepalives": {"1"}, "keepalives_count": nil, "keepalives_idle": nil, "keepalives_interval": nil,
	"load_balance_hosts": {"disable"}, "oauth_client_id": nil, "oauth_client_secret": nil, "oauth_issuer": nil,
	"oauth_scope": nil, "replication": {"0", "off", "no", "false"}, "requirepeer": nil,
	"scram_client_key": nil, "scram_server_key": nil, "ssl_max_protocol_version": nil, "ssl_min_protocol_version": nil,
	"sslcompression": {"0"}, "sslcrl": nil, "sslcrldir": nil, "sslkeylogfile": nil, "tcp_user_timeout": nil,
}

// namesSearchPath matches options that set search_path. A pooler may drop them: the store would be in another schema.
var namesSearchPath = regexp.MustCompile(`(?i)search[-_]path`)

// checkParameters refuses parameters that are unknown or that the driver does not support, and removes those that
// change nothing. It names only parameters of libpq: any other text may be a part of a password.
func checkParameters(given map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		values, known := fixedParameters[name]
		switch {
		case name == "options" && namesSearchPath.MatchString(given[name]):
			return errors.New("the program does not support search_path in the parameter options; " +
				"set the parameter search_path")
		case slices.Contains(serverParameters, name):
		case !known:
			return fmt.Errorf("a parameter is unknown: use those of libpq and pgx, and of the server only %s",
				strings.Join(serverParameters, ", "))
		case slices.Contains(values, strings.ToLower(given[name])):
			delete(given, name)
		case values == nil:
			return fmt.Errorf("the program does not support the parameter %s of libpq; remove it", name)
		default:
			return fmt.Errorf("the program supports the parameter %s of libpq only with the value %s; remove it",
				name, strings.Join(values, " or "))
		}
	}
	return nil
}

// resolve returns the configuration of the connections. Unless the URL sets them, it requires a primary and a server
// that proves that it knows the password, and adds a connect timeout for each host.
func (u URL) resolve() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(string(u))
	if err != nil {
		_, detail, _ := strings.Cut(err.Error(), "`: ") // after the URL
		return nil, fmt.Errorf("the database URL %s: %s", u, detail)
	}
	conn := config.ConnConfig
	if err := checkParameters(conn.RuntimeParams); err != nil {
		return nil, fmt.Errorf("the database URL: %w", err) // without the URL: an unknown parameter may be a password
	}
	if conn.Password == "" {
		if err := u.checkPassfile(); err != nil {
			return nil, fmt.Errorf("the database URL %s: read the password: %w", u, err)
		}
	}
	remote := remoteHosts(&conn.Config)
	if !slices.Contains(u.parameters(), "sslmode=prefer") && os.Getenv("PGSSLMODE") == "" {
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
	if config.MaxConns < 2 {
		return nil, fmt.Errorf("the database URL %s: pool_max_conns is %d: it must be at least 2, "+
			"because the lock of a move keeps a connection", u, config.MaxConns)
	}
	if conn.ValidateConnect == nil {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "plantstore"
	}
	config.PingTimeout = pingTime
	conn.OnNotice = recordWarning
	config.BeforeConnect = u.readAgain
	return config, nil
}

// readAgain reads the files of the URL for a new connection, as libpq does: passwords, certificates and keys are
// replaced while a server runs.
func (u URL) readAgain(_ context.Context, c *pgx.ConnConfig) error {
	config, err := u.resolve()
	if err != nil {
		return err
	}
	now := config.ConnConfig
	c.Host, c.Port, c.Fallbacks, c.TLSConfig = now.Host, now.Port, now.Fallbacks, now.TLSConfig
	c.Password, c.RequireAuth = now.Password, now.RequireAuth
	return nil
}

// checkPassfile returns an error if the file with the password is named and cannot be read. The driver ignores that.
func (u URL) checkPassfile() error {
	name := os.Getenv("PGPASSFILE")
	for _, p := range u.parameters() {
		if value, ok := strings.CutPrefix(p, "passfile="); ok {
			name, _ = url.PathUnescape(value) // ParseURL has checked it
		}
	}
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
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
