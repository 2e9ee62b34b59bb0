package kube

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/certs/certstest"
	"plantstore/internal/postgres/pgtest"
)

const fern = `{"id":1,"name":"Fern"}`

// certificate returns the files of a Secret of the type kubernetes.io/tls, with its authority.
func certificate(t *testing.T, authority *certstest.Authority, names ...string) map[string][]byte {
	t.Helper()
	cert, key, err := authority.Issue(certstest.Leaf{DNSNames: append(names, "localhost")})
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM}
}

func newAuthority(t *testing.T) *certstest.Authority {
	t.Helper()
	authority, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// settings writes the volume of the ConfigMap.
func (n *node) settings(t *testing.T, r *release) {
	t.Helper()
	files := map[string][]byte{}
	for name, text := range r.config.Data {
		files[name] = []byte(text)
	}
	n.project(t, "settings", 0o644, files)
}

// TestEmbeddedPod runs the pod of the StatefulSet: it creates a plant, is killed, has the plant again, changes its
// certificate without a restart, refuses a second pod on its volume, and ends within the grace period.
func TestEmbeddedPod(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	r := decode(t, manifests(t, "plantstore", values["embedded"]))
	container, template := r.container(t), r.template()
	n := newNode(t, buildProgram(t), template)
	n.settings(t, r)
	n.volume(t, "data")
	authority := newAuthority(t)
	n.project(t, "tls", 0o440, certificate(t, authority))
	call := newCaller(authority.Pool())

	pod := n.start(t, template)
	pod.ready(t, container)
	token := pod.exec(t, "token", "create", "web-shop", "--expires", "90d") // as NOTES.txt says
	if link := pod.exec(t, "console"); !strings.Contains(link, "https://127.0.0.1:8081/sign-in?code=") {
		t.Errorf("the link of the console: %s", link)
	}
	created, replayed := call.create(t, token, fern)
	if replayed {
		t.Error("the first create is a replay")
	}
	_ = pod.signal(t, "KILL")

	n.shareFiles(t, "data")
	pod = n.start(t, template)
	pod.ready(t, container)
	if got, replayed := call.create(t, token, fern); got != created || !replayed {
		t.Errorf("after SIGKILL: got %s, replayed: %t; want %s again", got, replayed, created)
	}
	if log := pod.stderr.String(); strings.Contains(log, `"level":"WARN"`) || !strings.Contains(log, `"msg":"ready"`) {
		t.Errorf("the log has warnings, or is not JSON:\n%s", log)
	}
	checkNewCertificate(t, n, pod, authority)
	checkSecondPod(t, n, r)

	begin := time.Now()
	err := pod.signal(t, "TERM")
	grace := time.Duration(*template.Spec.TerminationGracePeriodSeconds) * time.Second
	if took := time.Since(begin); err != nil || took > grace {
		t.Errorf("SIGTERM: %v after %s; want exit code 0 within %s\n%s", err, took, grace, pod.stderr.String())
	}
}

// checkNewCertificate replaces the Secret and waits until new connections receive the new certificate.
func checkNewCertificate(t *testing.T, n *node, pod *running, authority *certstest.Authority) {
	t.Helper()
	files := certificate(t, authority)
	want, _ := pem.Decode(files["tls.crt"])
	n.project(t, "tls", 0o440, files)
	until(t, pod, func() error {
		dialer := tls.Dialer{Config: &tls.Config{
			RootCAs: authority.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12,
		}}
		conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(podAddress, "8080"))
		if err != nil {
			return err
		}
		defer conn.Close()
		if got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw; !bytes.Equal(got, want.Bytes) {
			return errors.New("the server has the previous certificate")
		}
		return nil
	})
}

// checkSecondPod starts a second pod on the same volume, at other ports of the same address.
func checkSecondPod(t *testing.T, n *node, r *release) {
	t.Helper()
	second := n.start(t, r.template(), "PLANTSTORE_LISTEN=:9080", "PLANTSTORE_ADMIN_LISTEN=:9081")
	err := second.wait(t)
	var exit *exec.ExitError
	const refusal = "another plantstore serves /data/plantstore.db"
	if !errors.As(err, &exit) || !strings.Contains(second.stderr.String(), refusal) {
		t.Errorf("a second pod on the volume: %v; want a refusal\n%s", err, second.stderr.String())
	}
}

// TestPostgresPod runs two pods of the Deployment on a PostgreSQL server with TLS. The password and the authority are
// files of Secrets. The second pod has the plant of the first.
func TestPostgresPod(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	authority := newAuthority(t)
	cert := certificate(t, authority, "db.example")
	server, err := pgtest.StartTLS(t.Context(), []string{podAddress}, pgtest.Certificates{
		Certificate: cert["tls.crt"], Key: cert["tls.key"], Clients: authority.PEM,
	})
	if errors.Is(err, pgtest.ErrMissing) {
		need(t, "pg_ctlcluster")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	address, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	database := databaseOf(t, address)
	r := decode(t, manifests(t, "plantstore", strings.ReplaceAll(values["postgres"],
		"postgres://plants_server@db.example/plants", "postgres://plants_server@db.example/"+database)))
	container, template := r.container(t), r.template()
	sql(t, address, `CREATE ROLE plants_server LOGIN PASSWORD 'geheim';
		ALTER DATABASE "`+database+`" OWNER TO plants_server`)

	n := newNode(t, buildProgram(t), template)
	n.settings(t, r)
	n.project(t, "tls", 0o440, certificate(t, authority))
	n.project(t, "postgres", 0o440, map[string][]byte{"pgpass": []byte("db.example:5432:*:plants_server:geheim\n")})
	n.project(t, "postgres-ca", 0o440, map[string][]byte{"ca.crt": authority.PEM})
	first := n.start(t, template)
	first.ready(t, container)
	token := first.exec(t, "token", "create", "web-shop", "--expires", "90d")
	call := newCaller(authority.Pool())
	created, _ := call.create(t, token, fern)
	if err := first.signal(t, "TERM"); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, first.stderr.String())
	}
	second := n.start(t, template)
	second.ready(t, container)
	if got, replayed := call.create(t, token, fern); got != created || !replayed {
		t.Errorf("the second pod: got %s, replayed: %t; want %s again", got, replayed, created)
	}
	if log := second.stderr.String(); strings.Contains(log, "geheim") {
		t.Errorf("the log has the password:\n%s", log)
	}
}

// databaseOf returns the name of the database in a URL.
func databaseOf(t *testing.T, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(parsed.Path, "/")
}

// sql executes statements as the owner of the server.
func sql(t *testing.T, address, statements string) {
	t.Helper()
	psql, err := exec.LookPath("psql")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
		psql = append(found, "psql")[0]
	}
	command := exec.CommandContext(t.Context(), psql, "--quiet", "--set=ON_ERROR_STOP=1", "--command="+statements, address)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
}
