package acme

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// challengeKey is the key of the open challenge. There is at most one, because one process orders at a time, one
// domain after the other.
const challengeKey = "challenge.json"

const (
	// challengeFresh is the time for which a process does not read the open challenge again, so clients cannot cause
	// more reads.
	challengeFresh   = 250 * time.Millisecond
	challengeReadMax = 2 * time.Second
)

// openChallenge is the open challenge; without one, the zero value.
type openChallenge struct {
	acme.Challenge
	certificate *tls.Certificate // that answers it
}

// challenges returns the open challenge of all replicas. It implements acmez.Solver and acmez.Waiter.
type challenges struct {
	storage Storage
	log     *slog.Logger

	mu     sync.Mutex
	open   openChallenge // as stored; guarded by mu
	readAt time.Time     // start of the read of open; guarded by mu
}

// Present implements acmez.Solver.
func (c *challenges) Present(ctx context.Context, challenge acme.Challenge) error {
	return saveJSON(ctx, c.storage, challengeKey, challenge)
}

// Wait implements acmez.Waiter: it returns when every replica reads the open challenge again, and this one has read it.
func (c *challenges) Wait(ctx context.Context, _ acme.Challenge) error {
	err := sleep(ctx, 2*challengeFresh)
	c.current()
	return err
}

// CleanUp implements acmez.Solver.
func (c *challenges) CleanUp(ctx context.Context, _ acme.Challenge) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), challengeReadMax) // also of an interrupted order
	defer cancel()
	return c.storage.Delete(ctx, challengeKey)
}

// current returns the open challenge of this process or of another replica, and the last known one if the storage
// fails. Its read of the storage began at most challengeFresh before the call, so Wait is long enough even if reads are
// slow. Concurrent calls wait for the running read and share the next one, which no client can cancel.
func (c *challenges) current() openChallenge {
	called := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if called.Sub(c.readAt) < challengeFresh {
		return c.open
	}
	ctx, cancel := context.WithTimeout(context.Background(), challengeReadMax)
	defer cancel()
	c.readAt = time.Now()
	text, err := c.storage.Load(ctx, challengeKey)
	if err == nil {
		c.open, err = parseChallenge(text)
	}
	if err != nil {
		c.log.Debug("could not read the open ACME challenge", "error", err)
	}
	return c.open
}

// parseChallenge parses the stored challenge, if there is one, and creates its certificate.
func parseChallenge(text []byte) (open openChallenge, err error) {
	if text == nil {
		return openChallenge{}, nil
	}
	if err := json.Unmarshal(text, &open); err != nil {
		return openChallenge{}, err
	}
	open.certificate, err = acmez.TLSALPN01ChallengeCert(open.Challenge)
	return open, err
}

// Protocol is the protocol of the handshakes of the tls-alpn-01 challenge (RFC 8737 section 6.2). A tls.Config with
// GetCertificate must have it after the other protocols. net/http closes a connection with it after the handshake.
const Protocol = acmez.ACMETLS1Protocol
