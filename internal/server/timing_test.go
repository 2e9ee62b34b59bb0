package server_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"plantstore/internal/auth"
)

// tMax is the limit of |t| in tests of constant time. Equal distributions exceed it in 1 of 100,000 runs.
const tMax = 4.5

// The time of a response does not tell unknown, expired and revoked tokens apart. The control is a credential without a
// valid checksum, which the server refuses before it polls the engine: its client can compute the checksum, so this
// difference has no information.
func TestInvalidCredentialsTakeTheSameTime(t *testing.T) {
	if testing.Short() {
		t.Skip("make nightly runs the long form")
	}
	const samples = 10_000
	h, secrets := startWithTokens(t, func(s *setup) {
		s.limits.AuthFailures = 1 << 20 // on, and not reached
		s.connections.Uncharged = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	credentials := []string{"", secrets["expired"], secrets["revoked"], h.token + "0"}
	const attempts = 3 // chance or a pause can spoil one; a real difference exceeds the limit in each
	for i := range attempts {
		fault := compareTimes(t, sampleTimes(t, h, samples, credentials), samples)
		if fault == "" {
			return
		}
		t.Logf("attempt %d: %s", i+1, fault)
	}
	t.Errorf("no attempt of %d shows equal times", attempts)
}

// compareTimes returns a difference between the times of unknown, expired and revoked tokens and the control, or why
// they cannot show one.
func compareTimes(t *testing.T, took [][]float64, samples int) (fault string) {
	t.Helper()
	const unknown, expired, revoked, control = 0, 1, 2, 3
	dropPauses(took)
	for kind := range took {
		if n := len(took[kind]); n < samples/2 {
			return fmt.Sprintf("kind %d: %d of %d samples are usable", kind, n, samples)
		}
	}
	for _, pair := range []struct {
		name string
		a, b int
	}{
		{"unknown and expired", unknown, expired},
		{"unknown and revoked", unknown, revoked},
		{"expired and revoked", expired, revoked},
	} {
		value := welch(took[pair.a], took[pair.b])
		t.Logf("%s: t = %.2f of %d samples each", pair.name, value, samples)
		if math.Abs(value) >= tMax {
			return fmt.Sprintf("%s: |t| = %.2f, want below %v", pair.name, math.Abs(value), tMax)
		}
	}
	value := welch(took[unknown], took[control])
	t.Logf("control: t = %.2f", value)
	if math.Abs(value) < tMax {
		return fmt.Sprintf("control: |t| = %.2f, want %v or more: it detects no difference", math.Abs(value), tMax)
	}
	return ""
}

// sampleTimes sends requests with the credentials in random order, over concurrent connections, and returns the times
// of the responses in seconds. An empty credential is a new unknown one for each request.
func sampleTimes(t *testing.T, h *harness, samples int, credentials []string) [][]float64 {
	t.Helper()
	const connections = 20 // the responses of each wait 10 ms for a poll
	took := make([][]float64, len(credentials))
	var mu sync.Mutex // guards took
	var senders sync.WaitGroup
	for range connections {
		order := rand.Perm(len(credentials) * samples / connections)
		c := dial(t, h.public)
		_ = c.SetDeadline(time.Now().Add(10 * time.Minute))
		senders.Go(func() {
			for _, n := range order {
				kind := n % len(credentials)
				fresh := auth.Mint() // before each request, so that its time delays all kinds alike
				raw := post("", "Authorization: Bearer "+cmp.Or(credentials[kind], fresh))
				started := time.Now()
				c.write(raw)
				a, err := readResponse(c.reader, "POST")
				seconds := time.Since(started).Seconds()
				if a.Status == 503 { // a pause of the machine exceeded the time of a poll
					continue
				}
				if err != nil || a.Status != 401 {
					t.Errorf("kind %d: got %+v, %v, want 401", kind, a, err)
					return
				}
				mu.Lock()
				took[kind] = append(took[kind], seconds)
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	return took
}

// dropPauses removes the samples of pauses of the machine. One pause delays the requests of all connections, and would
// hide the difference of the control.
func dropPauses(took [][]float64) {
	const most = 10 // times the median
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	limit := most * all[len(all)/2]
	for kind := range took {
		took[kind] = slices.DeleteFunc(took[kind], func(seconds float64) bool { return seconds > limit })
	}
}

// welch returns Welch's t of two samples.
func welch(a, b []float64) float64 {
	meanA, varianceA := moments(a)
	meanB, varianceB := moments(b)
	return (meanA - meanB) / math.Sqrt(varianceA/float64(len(a))+varianceB/float64(len(b)))
}

// moments returns the mean and the variance of a sample.
func moments(sample []float64) (mean, variance float64) {
	for _, x := range sample {
		mean += x / float64(len(sample))
	}
	for _, x := range sample {
		variance += (x - mean) * (x - mean) / float64(len(sample)-1)
	}
	return mean, variance
}
