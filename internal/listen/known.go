package listen

import (
	"time"

	"plantstore/internal/limit"
)

const (
	knownFor = 10 * time.Minute // after a request with a valid credential
	// knownPerCredential are the networks that a credential can make known in knownFor: one that is used from many
	// addresses must not push out the networks of others.
	knownPerCredential = networksMax / 10
)

// known has the networks from which a valid credential has come. Its user locks it.
type known struct {
	admitted *limit.Recent[limit.Network]
	counts   map[int64]int // networks of each credential in the newer generation
}

func newKnown() known {
	return known{admitted: limit.NewRecent[limit.Network](networksMax, knownFor), counts: map[int64]int{}}
}

// admit makes a network known, unless its credential has made too many others known.
func (k *known) admit(n limit.Network, credential int64, now time.Duration) {
	if k.admitted.Turn(now) {
		clear(k.counts)
	}
	if !k.admitted.IsNewer(n) {
		if k.counts[credential] == knownPerCredential {
			return
		}
		k.counts[credential]++
	}
	k.admitted.Set(n, now)
}

func (k *known) has(n limit.Network, now time.Duration) bool {
	at, ok := k.admitted.At(n)
	return ok && now-at < knownFor
}
