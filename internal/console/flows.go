package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"plantstore/internal/oidc"
	"plantstore/internal/server"
)

// flowTimeMax is the time for a sign-in at an issuer.
const flowTimeMax = 10 * time.Minute

// usedMax bounds the states that flows keeps. Beyond it flows drops the oldest one, whose code only the issuer refuses.
const usedMax = 1000

// flows are the sign-ins at the issuer in progress. A cookie of the browser keeps each, encrypted with a key of this
// process, so clients without a session use no memory here.
type flows struct {
	sealer cipher.AEAD

	mu   sync.Mutex
	used []string // states of responses that the issuer checks or has accepted; guarded by mu
}

// pending is a sign-in at the issuer in progress.
type pending struct {
	oidc.Flow

	Next  string // the page after the sign-in
	Began time.Time
}

// newSealer returns the encryption of the cookies, with a new key.
func newSealer() cipher.AEAD {
	var key [32]byte
	_, _ = rand.Read(key[:])                         // it never returns an error
	block, _ := aes.NewCipher(key[:])                // the length of the key is valid
	sealer, _ := cipher.NewGCMWithRandomNonce(block) // AES is valid
	return sealer
}

func (f *flows) seal(p pending) (cookie string, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode a sign-in: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(f.sealer.Seal(nil, nil, text, nil)), nil
}

func (f *flows) open(cookie string) (p pending, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return p, false
	}
	text, err := f.sealer.Open(nil, nil, sealed, nil)
	return p, err == nil && json.Unmarshal(text, &p) == nil
}

// use reports whether the state of a response is in use for the first time.
func (f *flows) use(state string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.used, state) {
		return false
	}
	if len(f.used) == usedMax {
		f.used = slices.Delete(f.used, 0, 1)
	}
	f.used = append(f.used, state)
	return true
}

// forget removes a state whose response the issuer has not accepted.
func (f *flows) forget(state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = slices.DeleteFunc(f.used, func(used string) bool { return used == state })
}

// setFlowCookie sets the cookie of a sign-in at the issuer, or removes it with an empty value. It is SameSite=Lax,
// because the browser must send it when it returns from the issuer.
func (c *Console) setFlowCookie(call *server.Call, value string) {
	c.setAnyCookie(call, c.cookieName(call.Request)+"-oidc", value, flowTimeMax, http.SameSiteLaxMode)
}

// flowOf returns the sign-in at the issuer that the browser of a request has started.
func (c *Console) flowOf(r *http.Request) (pending, bool) {
	cookie, err := r.Cookie(c.cookieName(r) + "-oidc")
	if err != nil {
		return pending{}, false
	}
	p, ok := c.flows.open(cookie.Value)
	age := c.now().Sub(p.Began)
	return p, ok && age >= 0 && age <= flowTimeMax
}
