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

// honouredWithin is what is promised of a token that is made or revoked: a
// request that begins later is answered accordingly. It does not matter how fast
// the machine is, because a server that has not looked for so long looks first.
const honouredWithin = time.Second

// tokenPlant is sent with each of the tokens.
const tokenPlant = -1

// TestTokens makes tokens and revokes them, while three servers are at work.
func TestTokens(t *testing.T) {
	t.Parallel()
	c := newCluster(t, build(t))
	w := newCrowd(t.Context(), rig.Seed(t, *seed), c)
	var slowest time.Duration
	for i := range size(3, 100) {
		slowest = max(slowest, c.revoke(t, fmt.Sprint("short-lived-", i)))
	}
	asleep := c.revokeAsleep(t, "revoked-in-its-sleep")
	w.leave()
	t.Logf("a token that was revoked was good for %s at most, and for %s (0s: never) at a server that slept; one that was made was refused for %s at most, by %d requests",
		slowest, asleep, c.slowestToken, c.slowTokens)
	if max(slowest, asleep, c.slowestToken) > honouredWithin {
		t.Errorf("want %s at most", honouredWithin)
	}
	there := rows(t, c.db)
	delete(there, tokenPlant)
	if err := first(append(w.faults, check(w.history, there)...)); err != nil {
		t.Error(err)
	}
}

// looksSeldom looks once a minute whether tokens have changed.
var looksSeldom = rig.Weakness{
	File: "internal/store/credentials.go",
	Old:  "\tpollEvery    = 250 * time.Millisecond\n\tstaleAfter   = 900 * time.Millisecond\n",
	New:  "\tpollEvery    = time.Minute\n\tstaleAfter   = time.Minute\n",
}

func TestTokensControl(t *testing.T) {
	if !*long {
		t.Skip("in the long form only")
	}
	t.Parallel()
	c := newCluster(t, rig.Build(t, looksSeldom))
	awake, asleep := c.revoke(t, "short-lived"), c.revokeAsleep(t, "revoked-in-its-sleep")
	if awake <= honouredWithin || asleep <= honouredWithin {
		t.Fatalf("a token that was revoked was good for %s and %s: it was not noticed", awake, asleep)
	}
	t.Logf("caught: a token that was revoked was good for %s, and for %s at a server that slept", awake, asleep)
}

// revoke makes a token and revokes it, and returns for how long it was good for
// a replica after that.
func (c *cluster) revoke(t *testing.T, name string) time.Duration {
	t.Helper()
	users := c.newToken(t, name)
	return lastGood(t.Context(), users, c.revoked(t, name))
}

// revokeAsleep is revoke with a replica that stands still meanwhile, as it does
// when its machine sleeps.
func (c *cluster) revokeAsleep(t *testing.T, name string) time.Duration {
	t.Helper()
	users := c.newToken(t, name)
	sleeper := c.replica(0).server.Command.Process
	if err := sleeper.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	at := c.revoked(t, name)
	<-time.After(time.Until(at.Add(honouredWithin)))
	if err := sleeper.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	return lastGood(t.Context(), users[:1], at)
}

// newToken makes a token and waits until each replica has taken it.
func (c *cluster) newToken(t *testing.T, name string) (users []*sender) {
	t.Helper()
	token := rig.Token(t, c.program, c.db, name)
	made := time.Now()
	for i := range replicasMax {
		u := newSender(c.replica(i).server.URL, token, 1)
		for {
			begun := time.Since(made)
			o := u.send(t.Context(), tokenPlant, content{name: "Rosa"})
			if o.outcome.final() {
				break
			}
			c.slowTokens, c.slowestToken = c.slowTokens+1, max(c.slowestToken, begun)
			if o.status != http.StatusUnauthorized || begun > honouredWithin {
				t.Fatalf("a token that was made %s before, at replica %d: %s", begun, i, &o)
			}
		}
		users = append(users, u)
	}
	return users
}

// revoked revokes a token, and returns when that was done.
func (c *cluster) revoked(t *testing.T, name string) time.Time {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), c.program, "token", "revoke", name, "--db", c.db).CombinedOutput(); err != nil {
		t.Fatalf("token revoke: %v\n%s", err, out)
	}
	return time.Now()
}

// lastGood returns how long after a moment the last request began that a token
// was good for; it goes on no longer than a token may be good.
func lastGood(ctx context.Context, users []*sender, since time.Time) (longest time.Duration) {
	var mu sync.Mutex
	var running sync.WaitGroup
	for _, u := range users {
		running.Go(func() {
			for good := time.Duration(0); good <= honouredWithin; {
				begun := time.Since(since)
				if o := u.send(ctx, tokenPlant, content{name: "Rosa"}); o.status == http.StatusUnauthorized {
					return
				}
				good = begun
				mu.Lock()
				longest = max(longest, good)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return longest
}
