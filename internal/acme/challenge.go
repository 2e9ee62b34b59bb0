package acme

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// challengeKey is the key of the open challenge. There is at most one, because one process orders at a time, one
// domain after the other.
const challengeKey = "challenge.json"

const (
	// challengeFresh is the time for which a replica does not read the open challenge again, so clients cannot cause
	// more reads.
	challengeFresh   = 250 * time.Millisecond
	challengeReadMax = 2 * time.Second
)

// openChallenge is the stored form of the open challenge.
type openChallenge struct {
	Domain           string `json:"domain"`
	Type             string `json:"type"`
	Token            string `json:"token"`
	KeyAuthorization string `json:"key_authorization"`

	certificate *tls.Certificate // for tls-alpn-01
}

// challenges returns the open challenge of all replicas. It implements acmez.Solver and acmez.Waiter.
type challenges struct {
	storage Storage
	spread  time.Duration

	mu       sync.Mutex
	own      *openChallenge // of an order of this process; guarded by mu
	shared   *openChallenge // of the storage, or nil; guarded by mu
	loadedAt time.Time      // begin of the read of shared; guarded by mu
}

// Present implements acmez.Solver.
func (c *challenges) Present(ctx context.Context, challenge acme.Challenge) error {
	open, err := prepare(openChallenge{
		Domain: challenge.Identifier.Value, Type: challenge.Type,
		Token: challenge.Token, KeyAuthorization: challenge.KeyAuthorization,
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(open)
	if err != nil {
		return err
	}
	c.setOwn(open)
	return c.storage.Save(ctx, challengeKey, text)
}

// Wait implements acmez.Waiter: it returns when every replica reads the open challenge again.
func (c *challenges) Wait(ctx context.Context, _ acme.Challenge) error { return sleep(ctx, c.spread) }

// CleanUp implements acmez.Solver.
func (c *challenges) CleanUp(ctx context.Context, _ acme.Challenge) error {
	c.setOwn(nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), challengeReadMax) // also of an interrupted order
	defer cancel()
	return c.storage.Delete(ctx, challengeKey)
}

func (c *challenges) setOwn(open *openChallenge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = open
}

// prepare creates the certificate of a tls-alpn-01 challenge.
func prepare(open openChallenge) (*openChallenge, error) {
	if open.Type != acme.ChallengeTypeTLSALPN01 {
		return &open, nil
	}
	var err error
	open.certificate, err = acmez.TLSALPN01ChallengeCert(acme.Challenge{
		Identifier:       acme.Identifier{Type: "dns", Value: open.Domain},
		KeyAuthorization: open.KeyAuthorization,
	})
	return &open, err
}

// open returns the open challenge of this process or of another replica, or nil. Its read of the storage began at most
// challengeFresh before the call, so Wait is long enough also if reads are slow. Concurrent calls wait for the running
// read and share the next one, which no client can cancel.
func (c *challenges) open() (*openChallenge, error) {
	called := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own != nil {
		return c.own, nil
	}
	if called.Sub(c.loadedAt) < challengeFresh {
		return c.shared, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), challengeReadMax)
	defer cancel()
	var err error
	c.loadedAt = time.Now()
	c.shared, err = c.load(ctx)
	return c.shared, err
}

func (c *challenges) load(ctx context.Context) (*openChallenge, error) {
	text, err := c.storage.Load(ctx, challengeKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is no open challenge
	}
	if err != nil {
		return nil, err
	}
	var open openChallenge
	if err := json.Unmarshal(text, &open); err != nil {
		return nil, err
	}
	return prepare(open)
}

// KeyAuthorization returns the body of the response to a request for
// /.well-known/acme-challenge/TOKEN (RFC 8555 section 8.3), and false if the token is not that of the open challenge.
func (s *Source) KeyAuthorization(token string) (string, bool) {
	open := s.openChallenge()
	if open == nil || open.Type != acme.ChallengeTypeHTTP01 || open.Token != token {
		return "", false
	}
	return open.KeyAuthorization, true
}

// Protocol is the protocol of the handshakes of the tls-alpn-01 challenge (RFC 8737 section 6.2). A tls.Config with
// GetCertificate must have it after the other protocols. net/http closes a connection with it after the handshake.
const Protocol = acmez.ACMETLS1Protocol

// isChallenge reports whether a handshake is one of the tls-alpn-01 challenge: it offers no other protocol (RFC 8737
// section 4).
func isChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == Protocol
}

var errNoChallenge = errors.New("acme: the domain has no open challenge")

// challengeCertificate returns the certificate of the open challenge for a configured domain.
func (s *Source) challengeCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	open := s.openChallenge()
	if open == nil || open.certificate == nil || open.Domain != canonical(hello.ServerName) {
		s.metrics.noChallenge.Inc()
		return nil, errNoChallenge
	}
	return open.certificate, nil
}

// openChallenge returns the open challenge, or nil if the storage fails or has no challenge.
func (s *Source) openChallenge() *openChallenge {
	open, err := s.challenges.open()
	if err != nil {
		s.log.Debug("could not read the open ACME challenge", "error", err)
	}
	return open
}
