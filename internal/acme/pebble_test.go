package acme_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/acme"
	"plantstore/internal/acme/pebbletest"
)

// localhost is the only name that every machine resolves to loopback.
const localhost = "localhost"

// logBuffer is the log of a Source.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// replica is a Source with the listener that answers its challenges.
type replica struct {
	*acme.Source
	address string
	log     *logBuffer
}

// serveTLS accepts connections on a listener with the certificates of source.
func serveTLS(t *testing.T, l net.Listener, source func() *acme.Source) {
	t.Helper()
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1", acme.Protocol},
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return source().GetCertificate(hello)
			},
		},
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ReadHeaderTimeout: time.Minute,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func newCA(t *testing.T, c pebbletest.Config) *pebbletest.CA {
	t.Helper()
	ca, err := pebbletest.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pebble: %.20000s", ca.Output())
		}
		if err := ca.Stop(); err != nil {
			t.Error(err)
		}
	})
	return ca
}

func newStorage(t *testing.T) *acme.FileStorage {
	t.Helper()
	storage, err := acme.NewFileStorage(filepath.Join(t.TempDir(), "store-acme"))
	if err != nil {
		t.Fatal(err)
	}
	return storage
}

// newSource starts a Source that retries quickly. Its tls-alpn-01 challenges arrive at l.
func newSource(t *testing.T, c acme.Config, l net.Listener) *replica {
	t.Helper()
	log := &logBuffer{}
	c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	source := acme.New(t.Context(), c)
	source.Hasten()
	serveTLS(t, l, func() *acme.Source { return source })
	source.Start(t.Context())
	t.Cleanup(func() {
		source.Close()
		if t.Failed() {
			t.Logf("log: %.20000s", log)
		}
	})
	return &replica{source, l.Addr().String(), log}
}

func configFor(ca *pebbletest.CA, storage acme.Storage, domains ...string) acme.Config {
	return acme.Config{
		Domains: domains, Email: "operator@plants.example", Directory: ca.Directory, Storage: storage,
	}.WithRoots(ca.Roots)
}

// await calls check until it returns nil.
func await(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

// awaited returns an error unless a value of the storage exists.
func awaited(value []byte, err error) error {
	if err == nil && value == nil {
		return errors.New("the value is not stored")
	}
	return err
}

// leaf returns the certificate that a listener presents for localhost.
func leaf(t *testing.T, address string, roots *x509.CertPool) (*x509.Certificate, error) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{
		ServerName: localhost, RootCAs: roots, InsecureSkipVerify: roots == nil, // then only the serial counts
	}}
	c, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

func (r *replica) awaitCertificate(t *testing.T, roots *x509.CertPool) (found *x509.Certificate) {
	t.Helper()
	await(t, func() (err error) {
		found, err = leaf(t, r.address, roots)
		return err
	})
	return found
}

func issuerRoots(t *testing.T, ca *pebbletest.CA) *x509.CertPool {
	t.Helper()
	roots, err := ca.IssuerRoots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return roots
}

// wantValidity compares the metrics of the certificate in use with a certificate.
func wantValidity(t *testing.T, metrics prometheus.Gatherer, certificate *x509.Certificate) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "plantstore_tls_") {
			got[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"plantstore_tls_certificate_not_before_timestamp_seconds": float64(certificate.NotBefore.Unix()),
		"plantstore_tls_certificate_expiry_timestamp_seconds":     float64(certificate.NotAfter.Unix()),
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics: got %v, want %v", got, want)
	}
}

// Half of the nonces are rejected. A second Source on the same storage uses the stored certificate, and then a
// different e-mail address does not lead to an order either.
func TestIssuesByTLSALPN01(t *testing.T) {
	t.Parallel()
	l := listen(t)
	ca := newCA(t, pebbletest.Config{TLSPort: port(l), NonceReject: 20})
	storage := newStorage(t)
	c := configFor(ca, storage, localhost)
	metrics := prometheus.NewRegistry()
	c.Metrics = metrics
	first := newSource(t, c, l)
	certificate := first.awaitCertificate(t, issuerRoots(t, ca))
	wantValidity(t, metrics, certificate)
	first.Close()
	if got := ca.Orders(); got != 1 {
		t.Errorf("%d orders, want 1", got)
	}

	second := newSource(t, configFor(ca, storage, localhost), listen(t))
	again := second.awaitCertificate(t, issuerRoots(t, ca))
	if again.SerialNumber.Cmp(certificate.SerialNumber) != 0 || ca.Orders() != 1 {
		t.Errorf("after a restart: serial %x, want %x; %d orders, want 1",
			again.SerialNumber, certificate.SerialNumber, ca.Orders())
	}
	for _, line := range []string{"ACME account registered", "certificate issued"} {
		if !strings.Contains(first.log.String(), line) {
			t.Errorf("the log has no %q", line)
		}
	}
	if text := first.log.String() + second.log.String(); strings.Contains(text, "PRIVATE KEY") {
		t.Error("the log has a private key")
	}
}

// A client that connects to an address sends no server name. The certificate of the address has the short lifetime that
// Let's Encrypt requires, and the CA asks for the challenge by the reverse name.
func TestAddress(t *testing.T) {
	t.Parallel()
	l := listen(t)
	ca := newCA(t, pebbletest.Config{TLSPort: port(l), ShortLived: true})
	r := newSource(t, configFor(ca, newStorage(t), localhost, "127.0.0.1"), l)
	roots := issuerRoots(t, ca)
	await(t, func() error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots}}
		c, err := dialer.DialContext(t.Context(), "tcp", r.address)
		if err != nil {
			return err
		}
		defer c.Close()
		certificate := c.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if lifetime := certificate.NotAfter.Sub(certificate.NotBefore).Round(time.Hour); lifetime != 160*time.Hour {
			t.Errorf("lifetime %v", lifetime)
		}
		return nil
	})
	r.awaitCertificate(t, roots) // of the domain beside it
}

// A CA that is down at the renewal leaves the certificate in use. The CA returns without its accounts.
func TestRenewsWhenTheCAReturns(t *testing.T) {
	t.Parallel()
	long(t)
	l := listen(t)
	ca := newCA(t, pebbletest.Config{TLSPort: port(l), Lifetime: 12 * time.Second})
	r := newSource(t, configFor(ca, newStorage(t), localhost), l)
	r.awaitCertificate(t, issuerRoots(t, ca))
	ca.Pause()
	failures := func() int {
		return strings.Count(r.log.String(), "certificate order failed; the certificate in use stays")
	}
	awaitFailure := func() {
		before := failures()
		await(t, func() error {
			if failures() == before {
				return errors.New("the log has no further failed order")
			}
			return nil
		})
	}
	awaitFailure() // an order that ended before Pause may have renewed the certificate
	certificate := r.awaitCertificate(t, nil)
	awaitFailure()
	if now := r.awaitCertificate(t, nil); now.SerialNumber.Cmp(certificate.SerialNumber) != 0 {
		t.Error("the certificate has changed while the CA is down")
	}
	if err := ca.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	roots := issuerRoots(t, ca)
	if renewed := r.awaitCertificate(t, roots); renewed.SerialNumber.Cmp(certificate.SerialNumber) == 0 {
		t.Error("the certificate is the old one")
	}
	if got := strings.Count(r.log.String(), "ACME account registered"); got != 2 {
		t.Errorf("%d accounts registered, want one, and one after the CA lost it", got)
	}
}

// A wrong domain does not prevent the certificate of another one, and the CA receives few orders for it.
func TestWrongDomain(t *testing.T) {
	t.Parallel()
	long(t)
	l := listen(t)
	ca := newCA(t, pebbletest.Config{TLSPort: port(l)})
	storage := newStorage(t)
	r := newSource(t, configFor(ca, storage, "plants.invalid", localhost), l)
	r.awaitCertificate(t, issuerRoots(t, ca))
	await(t, func() error {
		return awaited(storage.Load(t.Context(), "failures-plants.invalid.json"))
	})
	hello := &tls.ClientHelloInfo{ServerName: "plants.invalid"}
	if _, err := r.GetCertificate(hello); !errors.Is(err, acme.ErrNoCertificate) {
		t.Errorf("GetCertificate of the wrong domain: %v, want ErrNoCertificate", err)
	}
	r.Close()

	// A restart with the intervals of production waits.
	var log logBuffer
	c := configFor(ca, storage, "plants.invalid", localhost)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	saveFailure(t, storage, "plants.invalid", time.Now().Add(time.Hour))
	before := ca.Orders()
	source := acme.New(t.Context(), c)
	source.Start(t.Context())
	defer source.Close()
	await(t, func() error {
		if !strings.Contains(log.String(), "the order of a certificate waits after earlier failures") {
			return fmt.Errorf("the log does not report the wait: %s", &log)
		}
		return nil
	})
	if got := ca.Orders(); got != before {
		t.Errorf("%d orders after the restart, want %d", got, before)
	}
}

func saveFailure(t *testing.T, storage acme.Storage, domain string, until time.Time) {
	t.Helper()
	text := fmt.Sprintf(`{"failures":3,"not_before":%q}`, until.Format(time.RFC3339))
	if err := storage.Save(t.Context(), "failures-"+domain+".json", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// Clients that send other names, or none, cause no order.
func TestServerNamesCauseNoOrder(t *testing.T) {
	t.Parallel()
	long(t)
	l := listen(t)
	ca := newCA(t, pebbletest.Config{TLSPort: port(l)})
	r := newSource(t, configFor(ca, newStorage(t), localhost), l)
	r.awaitCertificate(t, issuerRoots(t, ca))
	for n := range 10_000 {
		hello := &tls.ClientHelloInfo{ServerName: fmt.Sprintf("plants%d.example", n)}
		if _, err := r.GetCertificate(hello); err == nil {
			t.Fatalf("%s has a certificate", hello.ServerName)
		}
		hello.SupportedProtos = []string{acme.Protocol}
		if _, err := r.GetCertificate(hello); err == nil {
			t.Fatalf("%s has a challenge", hello.ServerName)
		}
	}
	if got, err := r.GetCertificate(&tls.ClientHelloInfo{}); err != nil || got.Leaf.DNSNames[0] != localhost {
		t.Errorf("without SNI: %v, %v", got, err)
	}
	if got, err := r.GetCertificate(&tls.ClientHelloInfo{ServerName: "LocalHost."}); err != nil {
		t.Errorf("another spelling: %v, %v", got, err)
	}
	if got := ca.Orders(); got != 1 {
		t.Errorf("%d orders, want 1", got)
	}
}

// long skips a test of several seconds in the short form.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make nightly runs the long form")
	}
}
