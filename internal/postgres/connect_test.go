package postgres_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
)

// TestCheckDemandsTLS shows the URLs that need an explicit sslmode. It connects to no server.
func TestCheckDemandsTLS(t *testing.T) {
	service := filepath.Join(t.TempDir(), "services")
	const services = "[far]\nhost=db.example\n[careful]\nhost=db.example\nsslmode=verify-full\n" +
		"[careless]\nhost=db.example\nsslmode=disable\n"
	if err := os.WriteFile(service, []byte(services), 0o600); err != nil {
		t.Fatal(err)
	}
	const demand = "it has no sslmode, and %s is not this machine: " +
		"a server that refuses TLS would receive every plant in clear text; " +
		"add sslmode=verify-full, and sslrootcert=FILE for a certificate of your own authority"
	for _, test := range []struct {
		url, environ string
		host         string // in the error; empty: no error
	}{
		{"postgres://localhost/plants", "", ""},
		{"postgres://LOCALHOST/plants", "", ""},
		{"postgres://127.0.0.1/plants", "", ""},
		{"postgres://127.1.2.3:1/plants", "", ""},
		{"postgres://[::1],[::ffff:127.0.0.1]/plants", "", ""},
		{"postgres://%2Fvar%2Frun%2Fpostgresql/plants", "", ""},
		{"postgres:///plants?host=/tmp", "", ""},
		{"postgres:///plants", "", ""},
		{"postgres:///plants", "PGHOST=/tmp", ""},
		{"postgres://db.example/plants", "", "db.example"},
		{"postgres://flora@db.example/plants", "", "db.example"},
		{"postgres://db.example/plants?sslmode=", "", "db.example"},
		{"postgres://10.77.0.1/plants", "", "10.77.0.1"},
		{"postgres://0.0.0.0/plants", "", "0.0.0.0"},
		{"postgres://[2001:db8::1]/plants", "", "2001:db8::1"},
		{"postgres://127.1/plants", "", "127.1"},
		{"postgres://localhost.example/plants", "", "localhost.example"},
		{"postgres://localhost,db.example/plants", "", "db.example"},
		{"postgres://db.example,db.example/plants", "", "db.example"},
		{"postgres:///plants?host=/tmp,db.example", "", "db.example"},
		{"postgres:///plants", "PGHOST=db.example", "db.example"},
		{"postgres:///plants?service=far&servicefile=" + neturl.PathEscape(service), "", "db.example"},
		{"postgres:///plants?servicefile=" + neturl.PathEscape(service), "PGSERVICE=far", "db.example"},
		{"postgres:///plants?service=careful&servicefile=" + neturl.PathEscape(service), "", ""},
		{"postgres:///plants?service=careless&servicefile=" + neturl.PathEscape(service), "", ""},
		{"postgres://db.example/plants", "PGSSLMODE=require", ""},
		{"postgres://db.example/plants?sslmode=verify-full", "", ""},
		{"postgres://db.example/plants?sslmode=prefer", "", ""},
		{"postgres://db.example/plants?sslmode=allow", "", ""},
		{"postgres://db.example/plants?sslmode=disable", "", ""},
		{"postgres://db.example/plants?ssl=true", "", ""},
		{"postgres://db.example/plants?sslnegotiation=direct", "", ""},
		{"postgres://db.example/plants?sslrootcert=system", "", ""},
	} {
		t.Run(test.url+" "+test.environ, func(t *testing.T) {
			if name, value, ok := strings.Cut(test.environ, "="); ok {
				t.Setenv(name, value)
			}
			u, err := postgres.ParseURL(test.url)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if test.host != "" {
				want = "the database URL " + string(u) + ": " + fmt.Sprintf(demand, test.host)
			}
			if err := u.Check(); errorText(err) != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if test.host == "" {
				return
			}
			e, err := postgres.Open(t.Context(), postgres.Config{URL: test.url})
			if err == nil {
				_ = e.Close()
			}
			if errorText(err) != want {
				t.Errorf("Open: got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestCheckParameters shows the parameters of libpq that a URL may have. A refused one is named, except an unknown one.
func TestCheckParameters(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "none")
	const prefix = "the database URL: "
	const unknown = prefix + "a parameter is unknown: use those of libpq and pgx, and of the server only " +
		"application_name, lock_timeout, options, search_path, statement_timeout, timezone"
	none := func(name string) string {
		return prefix + "the program does not support the parameter " + name + " of libpq; remove it"
	}
	only := func(name, values string) string {
		return prefix + "the program supports the parameter " + name + " of libpq only with the value " + values +
			"; remove it"
	}
	for parameter, want := range map[string]string{
		"connect_timeout=3": "", "target_session_attrs=primary": "", "sslcertmode=disable": "", "sslsni=0": "",
		"channel_binding=disable": "", "min_protocol_version=3.0": "", "krbsrvname=postgres": "",
		"sslnegotiation=postgres": "",
		"pool_max_conns=2":        "",
		"pool_max_conns=1": "the database URL postgres://localhost/plants?pool_max_conns=1: pool_max_conns is 1: " +
			"it must be at least 2, because the lock of a move keeps a connection",
		"application_name=flora": "", "options=-c%20jit%3Doff": "", "statement_cache_capacity=0": "", "pool_min_conns=1": "",
		"client_encoding=UTF8": "", "client_encoding=utf8": "", "client_encoding=auto": "", "keepalives=1": "",
		"gssencmode=prefer": "", "load_balance_hosts=disable": "", "sslcompression=0": "", "replication=false": "",
		"options=-c%20search_path%3Dnursery": prefix + "the program does not support search_path in the parameter " +
			"options; set the parameter search_path",
		"client_encoding=LATIN1":           only("client_encoding", "utf8 or utf-8 or auto"),
		"keepalives=0":                     only("keepalives", "1"),
		"load_balance_hosts=random":        only("load_balance_hosts", "disable"),
		"gssencmode=require":               only("gssencmode", "disable or prefer"),
		"hostaddr=10.0.0.7":                none("hostaddr"),
		"keepalives_idle=5":                none("keepalives_idle"),
		"tcp_user_timeout=5000":            none("tcp_user_timeout"),
		"sslcrl=/crl.pem":                  none("sslcrl"),
		"requirepeer=postgres":             none("requirepeer"),
		"ssl_min_protocol_version=TLSv1.3": none("ssl_min_protocol_version"),
		"geheim=1":                         unknown,
		"jit=off":                          unknown,
		"synchronous_commit=off":           unknown,
		"passfile=" + neturl.PathEscape(key): "the database URL postgres://localhost/plants?passfile=" +
			neturl.PathEscape(key) + ": read the password: open " + key + ": no such file or directory",
	} {
		u, err := postgres.ParseURL("postgres://localhost/plants?" + parameter)
		if err != nil {
			t.Fatal(err)
		}
		if got := errorText(u.Check()); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", parameter, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPasswordIsNotSent shows that a server receives no password that it could use, or guess from a hash, unless the
// operator allows its authentication method. The server requests any method.
func TestPasswordIsNotSent(t *testing.T) {
	t.Parallel()
	addresses := []string{"127.0.0.1"}
	if address := ownAddress(t); address != "" {
		addresses = append(addresses, address)
	}
	const (
		clearText = "R\x00\x00\x00\x08\x00\x00\x00\x03"
		md5       = "R\x00\x00\x00\x0c\x00\x00\x00\x05salt"
		trust     = "R\x00\x00\x00\x08\x00\x00\x00\x00"
	)
	for _, address := range addresses {
		trusted := ""
		if address != "127.0.0.1" {
			trusted = "server did not complete authentication"
		}
		for _, test := range []struct {
			name, request, parameters string
			sent                      bool
			want                      string // part of the error
		}{
			{"clear text", clearText, "", false, "server requested password authentication"},
			{"MD5", md5, "", false, "server requested md5 authentication"},
			{"clear text, allowed", clearText, "&require_auth=password", true, ""},
			{"MD5, allowed", md5, "&require_auth=md5,scram-sha-256", true, ""},
			{"clear text, all allowed", clearText, "&require_auth=", true, ""},
			{"MD5, clear text allowed", md5, "&require_auth=password", false, "server requested md5 authentication"},
			{"trust", trust, "", false, trusted},
		} {
			t.Run(address+" "+test.name, func(t *testing.T) {
				t.Parallel()
				listener, received := impostor(t, address, test.request)
				url := "postgres://flora@" + listener + "/plants?sslmode=disable" + passfile(t, "geheim") + test.parameters
				e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
				if err == nil {
					_ = e.Close()
					t.Fatal("Open succeeded")
				}
				if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "geheim") {
					t.Errorf("got %v, want %s", err, test.want)
				}
				const advice = "; configure SCRAM authentication on the server, " +
					"or set require_auth in the URL to the methods that you allow"
				if given := strings.HasSuffix(err.Error(), advice); given != (test.want != "") {
					t.Errorf("got %v, with advice: %t", err, given)
				}
				got := <-received
				sent := bytes.HasPrefix(got, []byte("p"))
				if sent != test.sent || !test.sent && bytes.Contains(got, []byte("geheim")) {
					t.Errorf("the server received %q", got)
				}
			})
		}
	}
}

// ownAddress returns an address of this machine that is no loopback address; empty if it has none.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}

// impostor accepts one connection, sends a request for authentication, and sends the client's answer to the channel. It
// implements that part of PostgreSQL's protocol (https://www.postgresql.org/docs/current/protocol-flow.html).
func impostor(t *testing.T, address, request string) (at string, received <-chan []byte) {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	result := make(chan []byte, 1)
	go func() { // ends with the connection, or with the listener
		defer close(result)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		var length [4]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		startupMessage := int64(length[2])<<8 + int64(length[3]) - 4
		if _, err := io.CopyN(io.Discard, c, startupMessage); err != nil {
			return
		}
		if _, err := io.WriteString(c, request); err != nil {
			return
		}
		answer := make([]byte, 1024)
		n, _ := c.Read(answer) // nothing if the client has closed the connection
		result <- answer[:n]
	}()
	return l.Addr().String(), result
}

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string // for sslrootcert
	pem         []byte // in file
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nursery"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, file: filepath.Join(t.TempDir(), "root.crt")}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(a.file, a.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns a certificate for an address or a role, and its key, in PEM.
func (a *authority) issue(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
	}
	if address := net.ParseIP(name); address != nil {
		template.IPAddresses = []net.IP{address}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	ownDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: ownDER})
}

// server returns the files of a server at an address that accepts certificates of the same authority.
func (a *authority) server(t *testing.T, address string) pgtest.Certificates {
	t.Helper()
	certificate, key := a.issue(t, address)
	return pgtest.Certificates{Certificate: certificate, Key: key, Clients: a.pem}
}

// startTLS starts a PostgreSQL server on two addresses, with a certificate for the first one.
func startTLS(t *testing.T, a *authority) (s *pgtest.Server, named, other string) {
	t.Helper()
	// On Linux, all of 127.0.0.0/8 is this machine; the port is fixed.
	named = fmt.Sprintf("127.%d.%d.1", 1+mathrand.IntN(250), mathrand.IntN(250))
	other = strings.TrimSuffix(named, "1") + "2"
	if l, err := net.Listen("tcp", named+":0"); err != nil {
		t.Skipf("this system has no %s", named)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := pgtest.StartTLS(t.Context(), []string{named, other}, a.server(t, named))
	if errors.Is(err, pgtest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s, named, other
}

// TestTLS connects to a PostgreSQL server with TLS and a certificate of the test's authority.
func TestTLS(t *testing.T) {
	t.Parallel()
	right, wrong := newAuthority(t), newAuthority(t)
	s, named, other := startTLS(t, right)
	local, err := s.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	execute(t, local, `CREATE ROLE flora LOGIN SUPERUSER PASSWORD 'geheim';
		CREATE ROLE careless LOGIN SUPERUSER PASSWORD 'geheim';
		SET password_encryption = 'md5'; CREATE ROLE dated LOGIN SUPERUSER PASSWORD 'geheim'`)

	full := "sslmode=verify-full&sslrootcert=" + neturl.PathEscape(right.file)
	const unknownAuthority = "certificate signed by unknown authority"
	for _, test := range []struct {
		name, user, address, parameters string
		want                            string // part of the error; empty: no error
	}{
		{"verify-full", "flora:geheim", named, full, ""},
		{"verify-full, channel binding", "flora:geheim", named, full + "&channel_binding=require", ""},
		{
			"another authority", "flora:geheim", named,
			"sslmode=verify-full&sslrootcert=" + neturl.PathEscape(wrong.file), unknownAuthority,
		},
		{"no authority", "flora:geheim", named, "sslmode=verify-full", unknownAuthority},
		{"another name", "flora:geheim", other, full, "certificate is valid for " + named + ", not " + other},
		{
			"another name, verify-ca", "flora:geheim", other,
			"sslmode=verify-ca&sslrootcert=" + neturl.PathEscape(right.file), "",
		},
		{"require", "flora:geheim", other, "sslmode=require", ""},
		{"clear text", "flora:geheim", named, "sslmode=disable", "no pg_hba.conf entry for host"},
		{"wrong password", "flora:falsch", named, full, "password authentication failed for user \"flora\""},
		{"requests clear text", "careless:geheim", named, full, "server requested password authentication"},
		{
			"requests clear text, without TLS", "careless:geheim", named, "sslmode=disable",
			"server requested password authentication",
		},
		{"requests clear text, allowed", "careless:geheim", named, full + "&require_auth=password", ""},
		{"requests MD5", "dated:geheim", named, full, "server requested md5 authentication"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own, err := s.Database(t.Context()) // a role refuses the tables of another one
			if err != nil {
				t.Fatal(err)
			}
			user, password, _ := strings.Cut(test.user, ":")
			url := "postgres://" + user + "@" + test.address + "/" + databaseOf(own) + "?" + test.parameters +
				passfile(t, password)
			e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err == nil {
				err = e.Close()
			}
			got := errorText(err)
			if test.want == "" && err != nil || !strings.Contains(got, test.want) || strings.Contains(got, "geheim") {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// passfile returns a parameter that names a file with a password.
func passfile(t *testing.T, password string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(path, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "&passfile=" + neturl.PathEscape(path)
}

// databaseOf returns the name of a database of pgtest.
func databaseOf(url string) string {
	return url[strings.LastIndex(url, "/test")+1 : strings.Index(url, "?")]
}

// TestRotation replaces the password, the authority, the server's certificate and the client's certificate of a running
// engine. New connections use them.
func TestRotation(t *testing.T) {
	t.Parallel()
	old, fresh := newAuthority(t), newAuthority(t)
	s, named, _ := startTLS(t, old)
	local, err := s.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	execute(t, local, "CREATE ROLE certified LOGIN SUPERUSER PASSWORD 'erste'")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(a *authority, password string) {
		certificate, key := a.issue(t, "certified")
		pgpass := named + ":*:*:certified:" + password
		for name, text := range map[string][]byte{
			"root.crt": a.pem, "client.crt": certificate, "client.key": key, "pgpass": []byte(pgpass),
		} {
			if err := os.WriteFile(at(name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(old, "erste")
	e, err := postgres.Open(t.Context(), postgres.Config{
		URL: "postgres://certified@" + named + "/" + databaseOf(local) + "?" + neturl.Values{
			"sslmode": {"verify-full"}, "sslrootcert": {at("root.crt")}, "sslcert": {at("client.crt")},
			"sslkey": {at("client.key")}, "passfile": {at("pgpass")},
		}.Encode(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for _, name := range []string{"root.crt", "client.crt", "client.key", "pgpass"} {
		if err := os.Rename(at(name), at("away")); err != nil {
			t.Fatal(err)
		}
		reconnect(t, e, local, "open "+at(name)+": no such file or directory")
		if err := os.Rename(at("away"), at(name)); err != nil {
			t.Fatal(err)
		}
	}

	execute(t, local, "ALTER ROLE certified PASSWORD 'zweite'")
	if err := s.Renew(t.Context(), fresh.server(t, named)); err != nil {
		t.Fatal(err)
	}
	write(fresh, "zweite")
	reconnect(t, e, local, "")
	batch := []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}}}
	if err := insertBatch(t.Context(), e, batch); err != nil {
		t.Error(err)
	}
}

// reconnect ends the connections of an engine until a new one fails with that part of an error, or, if want is empty,
// until it succeeds.
func reconnect(t *testing.T, e *postgres.Engine, url, want string) {
	t.Helper()
	c := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := c.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
			t.Fatal(err)
		}
		_ = e.Probe(ctx) // notices the end
		err := e.Probe(ctx)
		if want == "" && err == nil || want != "" && strings.Contains(errorText(err), want) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("got %v, want %q", err, want)
		}
	}
}

// TestChangedService shows that the rules for a URL also hold for a service file that changes later.
func TestChangedService(t *testing.T) {
	t.Parallel()
	at, err := neturl.Parse(database(t))
	if err != nil {
		t.Fatal(err)
	}
	service := filepath.Join(t.TempDir(), "services")
	write := func(host string) {
		text := fmt.Sprintf("[plants]\nhost=%s\nuser=postgres\ndbname=%s\n", host, strings.TrimPrefix(at.Path, "/"))
		if err := os.WriteFile(service, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(at.Query().Get("host"))
	e, err := postgres.Open(t.Context(), postgres.Config{
		URL: "postgres:///?service=plants&servicefile=" + neturl.PathEscape(service),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	write("db.example")
	reconnect(t, e, at.String(), "it has no sslmode, and db.example is not this machine")
}

// TestExposedConnection shows that a server logs a warning if sslmode does not protect its connections.
func TestExposedConnection(t *testing.T) {
	t.Parallel()
	const text = "the connection to the database is not protected: set sslmode=verify-full"
	const (
		clearText  = "192.0.2.1 (plants may cross the network in clear text)"
		unverified = "192.0.2.1 (the server's certificate is not verified)"
	)
	for parameters, want := range map[string]string{
		"sslmode=disable": clearText, "sslmode=prefer": clearText, "sslmode=allow": clearText, "sslmode=require": unverified,
		"sslmode=verify-ca": "", "sslmode=verify-full": "", "host=localhost": "", "host=127.0.0.1&sslmode=disable": "",
	} {
		for _, server := range []bool{true, false} {
			var log bytes.Buffer
			c := postgres.Config{
				URL:    "postgres://192.0.2.1:1/plants?connect_timeout=1&" + parameters,
				Server: server, Log: slog.New(slog.NewTextHandler(&log, nil)),
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // before a connection is made
			if _, err := postgres.Open(ctx, c); err == nil {
				t.Fatal("Open succeeded")
			}
			line := ""
			if want != "" && server {
				line = fmt.Sprintf("level=WARN msg=%q hosts=%q\n", text, want)
			}
			if got := log.String(); !strings.HasSuffix(got, line) || line == "" && got != "" {
				t.Errorf("%s, server %t: got %q, want %q", parameters, server, got, line)
			}
		}
	}
}
