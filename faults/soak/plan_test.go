package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// plan is what a seed decides. Everything about a plant follows from its
// number, so that nothing of it need be kept, and the number from its id.
type plan struct{ seed uint64 }

// An odd factor is reversible. This one spreads ids over all of 64 bits, so
// that each plant goes to another page of the store.
const (
	spread   = 0x9E3779B97F4A7C15
	unspread = 0xF1DE83E19937733D // spread * unspread = 1, modulo 1<<64
)

func (p plan) id(number uint64) int64      { return int64((number + p.seed) * spread) }
func (p plan) number(id int64) uint64      { return uint64(id)*unspread - p.seed }
func (p plan) plant(number uint64) plant   { return plant{p.id(number), p.content(number)} }
func (p plan) chance(of uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, of)) }

// request is what decides the request of that number.
func (p plan) request(number uint64) *rand.Rand { return p.chance(2*number + 1) }

func (p plan) content(number uint64) content {
	chance := p.chance(2 * number)
	c := content{Name: fmt.Sprintf("Made for soaking %d%s", number, strings.Repeat(` – "évergreen"`, chance.IntN(40)))}
	if kind := chance.IntN(3); kind > 0 {
		tag := strings.Repeat("soaked", kind-1) // it may be empty
		c.Tag = &tag
	}
	return c
}

// plant is a plant as it is sent and exported.
type plant struct {
	ID int64 `json:"id"`
	content
}

// content is a plant as it is answered.
type content struct {
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

// encode returns the one form in JSON that is sent and compared.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is encoded here always has one
	}
	return string(text)
}

// ledger is what the clients know, in a few bits of each number. It is safe for
// concurrent use.
type ledger struct {
	mu                 sync.Mutex
	next               uint64 // guarded by mu, as is what follows
	sent, acknowledged bits
}

// claim returns a number that nobody else has.
func (l *ledger) claim() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next - 1
}

// send notes that a plant is sent whole, so that it may be stored from now on.
func (l *ledger) send(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent.set(number)
}

// acknowledge notes that a plant must be stored from now on.
func (l *ledger) acknowledge(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged.set(number)
}

// maySee reports whether a plant may be stored.
func (l *ledger) maySee(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.has(number)
}

// old returns the number of a plant that is acknowledged. There may be none in
// the beginning.
func (l *ledger) old(chance *rand.Rand) (number uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range 64 { // of all numbers, more than half are of such plants
		if number = chance.Uint64N(l.next); l.acknowledged.has(number) {
			return number, true
		}
	}
	return 0, false
}

// bits is a set of numbers, with a bit for each up to the greatest.
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
