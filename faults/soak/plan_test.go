package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// plan derives plants and requests from a seed: the content of a plant from its number, and the number from the id. The
// harness so need not store plants.
type plan struct{ seed uint64 }

// An odd factor is invertible. This one spreads ids over all 64 bits, so that consecutive plants are stored in
// different pages.
const (
	spread   = 0x9E3779B97F4A7C15
	unspread = 0xF1DE83E19937733D // spread * unspread = 1, modulo 1<<64
)

func (p plan) id(number uint64) int64      { return int64((number + p.seed) * spread) }
func (p plan) number(id int64) uint64      { return uint64(id)*unspread - p.seed }
func (p plan) plant(number uint64) plant   { return plant{p.id(number), p.content(number)} }
func (p plan) random(of uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, of)) }

// request returns the random source of the request with that number.
func (p plan) request(number uint64) *rand.Rand { return p.random(2*number + 1) }

func (p plan) content(number uint64) content {
	random := p.random(2 * number)
	c := content{Name: fmt.Sprintf("Made for soaking %d%s", number, strings.Repeat(` – "évergreen"`, random.IntN(40)))}
	if kind := random.IntN(3); kind > 0 {
		tag := strings.Repeat("soaked", kind-1) // may be empty
		c.Tag = &tag
	}
	return c
}

// plant is a plant as sent and as exported.
type plant struct {
	ID int64 `json:"id"`
	content
}

// content is the body of a response with status 200.
type content struct {
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

// encode returns the JSON that is sent and compared.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // these types always encode
	}
	return string(text)
}

// ledger records the sent and the acknowledged plants, in two bits each. It is safe for concurrent use.
type ledger struct {
	mu                 sync.Mutex
	next               uint64 // guarded by mu, like all that follows
	sent, acknowledged bits
}

// claim returns an unused number.
func (l *ledger) claim() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next - 1
}

// send records that a plant is sent in whole, so that it may be stored from now on.
func (l *ledger) send(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent.set(number)
}

// acknowledge records that a plant must be stored from now on.
func (l *ledger) acknowledge(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged.set(number)
}

// wasSent reports whether a plant was sent in whole.
func (l *ledger) wasSent(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.has(number)
}

// old returns the number of an acknowledged plant. At the beginning ok is false: no plant is acknowledged yet.
func (l *ledger) old(random *rand.Rand) (number uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range 64 { // more than half of the numbers belong to such plants
		if number = random.Uint64N(l.next); l.acknowledged.has(number) {
			return number, true
		}
	}
	return 0, false
}

// bits is a set of numbers, as a bit for each number.
type bits []uint64

func (b *bits) set(number uint64) {
	for number/64 >= uint64(len(*b)) {
		*b = append(*b, 0)
	}
	(*b)[number/64] |= 1 << (number % 64)
}

func (b bits) has(number uint64) bool {
	return number/64 < uint64(len(b)) && b[number/64]>>(number%64)&1 == 1
}
