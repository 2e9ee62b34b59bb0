// Package acme orders certificates from a certificate authority (CA) by the ACME protocol (RFC 8555), renews
// them, and answers the challenges by which the CA checks the domains. Replicas of a server share account,
// certificates and challenges in a Storage, and one replica orders at a time.
package acme

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mholt/acmez/v3/acme"
	"github.com/prometheus/client_golang/prometheus"
)

// Storage keeps small values by key: the account, certificates with their private keys, the open challenge, and the
// failures of each domain. A key has only lower-case letters, digits, hyphens and dots. All methods are safe for
// concurrent use.
type Storage interface {
	// Load returns a value, or nil if the key has none.
	Load(ctx context.Context, key string) ([]byte, error)

	// Save stores a value durably, and replaces the previous one.
	Save(ctx context.Context, key string, value []byte) error

	// Delete removes a value. A key without a value is not an error.
	Delete(ctx context.Context, key string) error

	// TryLock acquires the lock of the orders. It reports false if another process has the lock. The lock ends
	// with the process at the latest.
	TryLock(ctx context.Context) (unlock func(), locked bool, err error)
}

func saveJSON(ctx context.Context, s Storage, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.Save(ctx, key, text)
}

// Config configures a Source. Log and Metrics may be nil.
type Config struct {
	Domains   []string // each has a certificate of its own; the first one is for clients without SNI
	Email     string   // contact of the account; the operator has agreed to the terms of service of the CA
	Directory string   // https URL of the CA's directory

	Storage Storage
	Log     *slog.Logger
	Metrics prometheus.Registerer

	roots *x509.CertPool // verify the TLS certificate of the directory; nil: the system's
}

// Source has the certificates of the configured domains. Its goroutine orders and renews them between Start and Close.
type Source struct {
	config  Config
	log     *slog.Logger
	metrics *metrics
	client  *acme.Client
	times   times
	domains []*domain          // in the order of the configuration
	byName  map[string]*domain // by the server name of a handshake; never changes
	unnamed *domain            // for a handshake without a server name: the first address, else the first domain

	transport  *limited // used by client
	challenges *challenges

	stop    context.CancelFunc
	running sync.WaitGroup
}

// domain is a configured domain, or an IP address, which is the same for a CA that supports RFC 8738. Only the
// goroutine of the Source uses fields other than name, address and certificate.
type domain struct {
	name        string
	address     bool                            // name is an IP address
	certificate atomic.Pointer[tls.Certificate] // nil: none yet
	due         time.Time                       // when to visit the domain next
	foreign     bool                            // the certificate is from another directory
	unsaved     []byte                          // text of the certificate while the storage has failed to store it
	checkAt     time.Time                       // when to request the renewal window next
	renewAt     time.Time                       // from the renewal window of the CA; zero: unknown
	unreachable int                             // failures in a row without a response of the CA
}

// New returns a Source with the certificates of the storage. CheckDomain, CheckEmail and CheckDirectory accept its
// configuration. An error of the storage is not one of New: the Source reads it again after Start.
func New(ctx context.Context, c Config) *Source {
	s := &Source{
		config: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), transport: newTransport(c.roots), times: defaultTimes,
		byName: map[string]*domain{}, stop: func() {},
	}
	s.client = newClient(c, s.transport)
	s.challenges = &challenges{storage: c.Storage, log: s.log}
	for _, name := range c.Domains {
		serverName := name
		address, err := netip.ParseAddr(name)
		if err == nil {
			serverName = reverseName(address)
		}
		if s.byName[serverName] != nil {
			continue
		}
		d := &domain{name: name, address: err == nil}
		s.domains, s.byName[serverName] = append(s.domains, d), d
		if s.unnamed == nil || d.address && !s.unnamed.address {
			s.unnamed = d
		}
	}
	s.metrics = s.newMetrics(c.Metrics)
	for _, d := range s.domains {
		if err := s.load(ctx, d); err != nil {
			s.log.Warn("could not read a certificate of the ACME storage", "domain", d.name, "error", err)
		}
	}
	return s
}

func newClient(c Config, transport *limited) *acme.Client {
	return &acme.Client{
		Directory: c.Directory, UserAgent: "plantstore", PollTimeout: pollMax,
		HTTPClient: &http.Client{Transport: transport, Timeout: requestTimeMax},
	}
}

// Check returns an error if the directory of the CA does not respond.
func Check(ctx context.Context, c Config) error {
	transport := newTransport(c.roots)
	defer transport.next.CloseIdleConnections()
	_, err := newClient(c, transport).GetDirectory(ctx)
	return err
}

// Start starts the goroutine that orders and renews. The listener that answers the challenges must accept
// connections. Close ends the goroutine.
func (s *Source) Start(ctx context.Context) {
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.running.Go(func() { s.run(ctx) })
}

// Stop interrupts an order, and starts no further one. It does not wait. A server calls it before it closes the
// listener of the challenges: the CA would count a challenge without a response as a failure.
func (s *Source) Stop() { s.stop() }

// Close is Stop, waits for the end of the goroutine, and closes the connections to the CA.
func (s *Source) Close() {
	s.stop()
	s.running.Wait()
	s.transport.next.CloseIdleConnections()
}

// errNoCertificate is the error of a handshake for a configured domain that has no certificate yet.
var errNoCertificate = errors.New("acme: the domain has no certificate yet; the log has the state of its order")

// GetCertificate is for a tls.Config with Protocol. It returns the certificate of the server name, or the open
// challenge's. A client sends no server name for an address: it gets the certificate of the first one, or of the first
// domain if there is no address. It never causes an order: a client can send any name.
func (s *Source) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	d := s.byName[name]
	if hello.ServerName == "" {
		d = s.unnamed
	}
	if d == nil {
		s.metrics.unknownName.Inc()
		return nil, errors.New("acme: the server name of the client is none of the configured domains")
	}
	if slices.Equal(hello.SupportedProtos, []string{Protocol}) { // a challenge (RFC 8737 section 4)
		open := s.challenges.current()
		if open.certificate == nil || open.Identifier.Value != d.name {
			s.metrics.noChallenge.Inc()
			return nil, errors.New("acme: the domain has no open challenge")
		}
		return open.certificate, nil
	}
	certificate := d.certificate.Load()
	if certificate == nil {
		s.metrics.noCertificate.Inc()
		return nil, errNoCertificate
	}
	return certificate, nil
}

// load installs the stored certificate of a domain if it is newer than the one in use. A missing or damaged one is not
// an error.
func (s *Source) load(ctx context.Context, d *domain) error {
	text, err := s.config.Storage.Load(ctx, d.certificateKey())
	if err != nil {
		return fmt.Errorf("load %s: %w", d.certificateKey(), err)
	}
	if text == nil {
		return nil
	}
	certificate, err := parseCertificate(text, d.name)
	if err != nil { // an order replaces it
		s.log.Warn("the stored certificate is not usable", "domain", d.name, "error", err)
		return nil
	}
	if now := d.certificate.Load(); now == nil || certificate.Leaf.NotBefore.After(now.Leaf.NotBefore) {
		d.install(certificate)
		d.foreign = !bytes.HasPrefix(text, issuedBy(s.config.Directory))
	}
	return nil
}

// install makes handshakes use a certificate.
func (d *domain) install(certificate *tls.Certificate) {
	d.certificate.Store(certificate)
	d.foreign, d.checkAt, d.renewAt = false, time.Time{}, time.Time{}
}

func (d *domain) certificateKey() string { return "certificate-" + d.key() + ".pem" }

func (d *domain) failuresKey() string { return "failures-" + d.key() + ".json" }

// key returns the name as a part of a key of the storage, which has no colon.
func (d *domain) key() string { return strings.ReplaceAll(d.name, ":", "-") }
