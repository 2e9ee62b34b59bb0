package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"plantstore/internal/oidc"
)

// flowTimeMax is the time for a sign-in at an issuer.
const flowTimeMax = 10 * time.Minute

// usedMax bounds the states that flows keeps.
const usedMax = 10_000

// flows are the sign-ins at the issuer that have begun. A cookie of the browser keeps each,
// encrypted with a key of this process, so that clients without a session use no memory here.
type flows struct {
	sealer cipher.AEAD

	mu   sync.Mutex
	used map[string]time.Time // states of flows that came back, and when; at most usedMax; guarded by mu
}

// pending is a sign-in at the issuer that has begun.
type pending struct {
	oidc.Flow

	Next  string // the page after the sign-in
	Began time.Time
}

// newSealer returns the encryption of the cookies, with a new key.
func newSealer() (cipher.AEAD, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never returns an error
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("create a cipher: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealedFor separates the cookies from other texts under the key.
var sealedFor = []byte("sign-in at an issuer")

func (f *flows) seal(p pending) (cookie string, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode a sign-in: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(f.sealer.Seal(nil, nil, text, sealedFor)), nil
}

func (f *flows) open(cookie string) (p pending, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return p, false
	}
	text, err := f.sealer.Open(nil, nil, sealed, sealedFor)
	return p, err == nil && json.Unmarshal(text, &p) == nil
}

// use reports whether the flow of a state comes back for the first time.
func (f *flows) use(state string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used == nil {
		f.used = map[string]time.Time{}
	}
	if len(f.used) >= usedMax {
		maps.DeleteFunc(f.used, func(_ string, at time.Time) bool { return now.Sub(at) > flowTimeMax })
	}
	if _, again := f.used[state]; again || len(f.used) >= usedMax {
		return false
	}
	f.used[state] = now
	return true
}

// setFlowCookie sets the cookie of a sign-in at the issuer, or removes it with an empty value. It
// is SameSite=Lax, because the browser must send it when it comes from the issuer.
func (c *Console) setFlowCookie(w http.ResponseWriter, r *http.Request, value string) {
	age := int(flowTimeMax.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(r) + "-oidc", Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// flowOf returns the sign-in at the issuer that the browser of a request has begun.
func (c *Console) flowOf(r *http.Request) (pending, bool) {
	cookie, err := r.Cookie(c.cookieName(r) + "-oidc")
	if err != nil {
		return pending{}, false
	}
	p, ok := c.flows.open(cookie.Value)
	age := c.now().Sub(p.Began)
	return p, ok && age >= 0 && age <= flowTimeMax
}
