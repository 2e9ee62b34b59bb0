package replicas

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// effectiveMax is the guaranteed time after which every server applies the creation or revocation of a token. It does
// not depend on the speed of the machine: a server whose last poll is older polls again before it authenticates a
// request.
const effectiveMax = time.Second

// tokenPlant is the id of the plant that the requests with new tokens send.
const tokenPlant = -1

// TestTokens creates and revokes tokens of three servers under load.
func TestTokens(t *testing.T) {
	t.Parallel()
	c := newCluster(t, build(t))
	l := startLoad(t.Context(), rig.Seed(t, *seed), c)
	var running time.Duration
	for i := range size(3, 100) {
		running = max(running, c.revoke(t, fmt.Sprint("short-lived-", i)))
	}
	stopped := c.revokeWhileStopped(t, "revoked-while-stopped")
	l.stop()
	t.Logf("longest time that servers accepted a revoked token: %s, and %s after SIGSTOP and SIGCONT (0s: never); "+
		"longest time that they refused a new token: %s, in %d requests",
		running, stopped, c.newTokenDelay, c.newTokenRefusals)
	if n := max(running, stopped, c.newTokenDelay); n > effectiveMax {
		t.Errorf("a change of a token was effective after %s, want at most %s", n, effectiveMax)
	}
	stored := storedPlants(t, c.db)
	delete(stored, tokenPlant)
	if err := joinFirst(append(l.violations, check(l.history, stored)...)); err != nil {
		t.Error(err)
	}
}

// rarePolls polls the tokens once a minute.
var rarePolls = rig.Weakness{
	File: "internal/writepath/credentials.go",
	Old:  "\tpollEvery    = 250 * time.Millisecond\n\tstaleAfter   = 900 * time.Millisecond\n",
	New:  "\tpollEvery    = time.Minute\n\tstaleAfter   = time.Minute\n",
}

func TestTokensControl(t *testing.T) {
	program := rig.Build(t, rarePolls) // in the short form too: the weakness must match its source
	if !*long {
		t.Skip("only in the long form")
	}
	t.Parallel()
	c := newCluster(t, program)
	running, stopped := c.revoke(t, "short-lived"), c.revokeWhileStopped(t, "revoked-while-stopped")
	if running <= effectiveMax || stopped <= effectiveMax {
		t.Fatalf("servers accepted a revoked token for %s and %s, want more than %s of a weakened program",
			running, stopped, effectiveMax)
	}
	t.Logf("detected: servers accepted a revoked token for %s, and %s after SIGSTOP and SIGCONT", running, stopped)
}

// revoke creates and revokes a token, and returns the longest time that a replica accepted the revoked token.
func (c *cluster) revoke(t *testing.T, name string) time.Duration {
	t.Helper()
	senders := c.newToken(t, name)
	return lastAccepted(t.Context(), senders, c.revokeToken(t, name))
}

// revokeWhileStopped is revoke for a replica that SIGSTOP stops during the revocation, as the sleep of a machine does.
func (c *cluster) revokeWhileStopped(t *testing.T, name string) time.Duration {
	t.Helper()
	senders := c.newToken(t, name)
	process := c.replica(0).server.Command.Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	revokedAt := c.revokeToken(t, name)
	<-time.After(time.Until(revokedAt.Add(effectiveMax)))
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	return lastAccepted(t.Context(), senders[:1], revokedAt)
}

// newToken creates a token and waits until each replica accepts it. It returns a sender with the token for each
// replica.
func (c *cluster) newToken(t *testing.T, name string) (senders []*sender) {
	t.Helper()
	token := rig.Token(t, c.program, c.db, name)
	createdAt := time.Now()
	for i := range replicasMax {
		s := newSender(c.replica(i).server.URL, token)
		for {
			age := time.Since(createdAt)
			o := s.send(t.Context(), tokenPlant, content{name: "Rosa"})
			if o.outcome.final() {
				break
			}
			c.newTokenRefusals, c.newTokenDelay = c.newTokenRefusals+1, max(c.newTokenDelay, age)
			if o.status != http.StatusUnauthorized || age > effectiveMax {
				t.Fatalf("replica %d refused a token that was created %s before: %s", i, age, &o)
			}
		}
		senders = append(senders, s)
	}
	return senders
}

// revokeToken revokes a token, and returns the time of the revocation.
func (c *cluster) revokeToken(t *testing.T, name string) time.Time {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), c.program, "token", "revoke", name, "--db", c.db).CombinedOutput()
	if err != nil {
		t.Fatalf("token revoke: %v\n%s", err, out)
	}
	return time.Now()
}

// lastAccepted sends requests with a revoked token until each server refuses one, or accepts one later than
// effectiveMax. It returns the time from the revocation to the start of the last accepted request.
func lastAccepted(ctx context.Context, senders []*sender, revokedAt time.Time) (longest time.Duration) {
	var mu sync.Mutex
	var running sync.WaitGroup
	for _, s := range senders {
		running.Go(func() {
			for accepted := time.Duration(0); accepted <= effectiveMax; {
				started := time.Since(revokedAt)
				if o := s.send(ctx, tokenPlant, content{name: "Rosa"}); o.status == http.StatusUnauthorized {
					return
				}
				accepted = started
				mu.Lock()
				longest = max(longest, accepted)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return longest
}
