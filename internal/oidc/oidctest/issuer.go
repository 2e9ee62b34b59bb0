// Package oidctest has an issuer of JWTs for tests, and a table of bad JWTs.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Audience is the audience of the JWTs of an Issuer.
const Audience = "https://plants.example"

// Object is a JSON object.
type Object = map[string]any

// Key is a key of an Issuer.
type Key struct {
	ID      string
	Alg     string        // signature algorithm
	Private crypto.Signer // *rsa.PrivateKey, *ecdsa.PrivateKey or ed25519.PrivateKey
	Extra   Object        // more members of its JWK, or other values of the usual ones
}

// Issuer is an OpenID Connect issuer. Its zero value is not usable; NewIssuer makes it.
type Issuer struct {
	URL string

	mu      sync.Mutex
	keys    []Key        // published; guarded by mu
	answer  http.Handler // nil: its own; guarded by mu
	fetches int          // how often the keys were fetched; guarded by mu
	signIns signIns      // guarded by mu
}

// NewIssuer returns an issuer at a URL that publishes one key for ES256.
func NewIssuer(url string) *Issuer { return &Issuer{URL: url, keys: []Key{NewKey("key-1", "ES256")}} }

// Start starts an issuer on a free port of the loopback interface. The caller calls stop.
func Start() (i *Issuer, stop func()) {
	i = NewIssuer("")
	server := httptest.NewUnstartedServer(i)
	i.URL = "http://" + server.Listener.Addr().String() // before the first request
	server.Start()
	return i, server.Close
}

// NewKey returns a new key for signatures of an algorithm.
func NewKey(id, alg string) Key {
	curves := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}
	var private crypto.Signer
	var err error
	switch {
	case curves[alg] != nil:
		private, err = ecdsa.GenerateKey(curves[alg], rand.Reader)
	case alg == "EdDSA":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		panic(err)
	}
	return Key{ID: id, Alg: alg, Private: private}
}

// Publish replaces the published keys.
func (i *Issuer) Publish(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Answer makes a handler answer all requests; nil restores the answers of the issuer.
func (i *Issuer) Answer(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = nil
	if h != nil {
		i.answer = h
	}
}

// Fetches returns the number of requests for the keys.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// Key returns the first published key.
func (i *Issuer) Key() Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[0]
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	keys, answer := i.keys, i.answer
	if r.URL.Path == "/keys" {
		i.fetches++
	}
	i.mu.Unlock()
	accept := r.Header.Get("Accept")
	switch {
	case answer != nil:
		answer.ServeHTTP(w, r)
	// As Kubernetes does, which serves its keys as application/jwk-set+json only.
	case strings.Contains(r.URL.Path, "/.well-known/") && !strings.Contains(accept, "application/json"),
		r.URL.Path == "/keys" && !strings.Contains(accept, "application/jwk-set+json"):
		http.Error(w, "", http.StatusNotAcceptable)
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		writeJSON(w, Object{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize",
			"token_endpoint": i.URL + "/token", "authorization_response_iss_parameter_supported": true,
		})
	case r.URL.Path == "/authorize":
		i.authorize(w, r)
	case r.URL.Path == "/token" && r.Method == http.MethodPost:
		i.token(w, r)
	case r.URL.Path == "/keys":
		set := []Object{}
		for _, k := range keys {
			set = append(set, k.JWK())
		}
		writeJSON(w, Object{"keys": set})
	default:
		http.NotFound(w, r)
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // fails if the client has disconnected
}

// JWK returns the public key.
func (k Key) JWK() Object {
	jwk := Object{"use": "sig"}
	if k.ID != "" {
		jwk["kid"] = k.ID
	}
	switch public := k.Private.Public().(type) {
	case *rsa.PublicKey:
		jwk["kty"], jwk["n"], jwk["e"] = "RSA", Base64(public.N.Bytes()), Base64(big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			panic(err)
		}
		size := len(point) / 2
		jwk["kty"], jwk["crv"] = "EC", public.Curve.Params().Name
		jwk["x"], jwk["y"] = Base64(point[1:1+size]), Base64(point[1+size:])
	case ed25519.PublicKey:
		jwk["kty"], jwk["crv"], jwk["x"] = "OKP", "Ed25519", Base64(public)
	}
	for name, value := range k.Extra {
		jwk[name] = value
	}
	return jwk
}

// Header returns the header of a good JWT of the key.
func (k Key) Header() Object { return Object{"typ": "at+jwt", "alg": k.Alg, "kid": k.ID} }

// Claims returns the claims of a good JWT that was issued at that time and is valid for an hour. It grants the scope
// plants:create.
func (i *Issuer) Claims(now time.Time) Object {
	return Object{
		"iss": i.URL, "aud": Audience, "sub": "web-shop", "client_id": "web-shop", "scope": "plants:create",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": fmt.Sprintf("jti-%d", now.UnixNano()),
	}
}

// JWT returns a good JWT of the first key with these changes of its claims; nil removes a claim.
func (i *Issuer) JWT(now time.Time, changes Object) string {
	k := i.Key()
	return k.Sign(k.Header(), Changed(i.Claims(now), changes))
}

// Changed returns an object with changes; nil removes a member.
func Changed(o, changes Object) Object {
	changed := Object{}
	for name, value := range o {
		changed[name] = value
	}
	for name, value := range changes {
		changed[name] = value
		if value == nil {
			delete(changed, name)
		}
	}
	return changed
}

// Sign returns a JWT.
func (k Key) Sign(header, claims Object) string { return k.SignText(text(header), text(claims)) }

// SignText is Sign for a header and claims that need not be JSON.
func (k Key) SignText(header, claims string) string {
	input := Base64([]byte(header)) + "." + Base64([]byte(claims))
	return input + "." + Base64(k.signature(input))
}

func (k Key) signature(input string) []byte {
	var hash crypto.Hash
	var options crypto.SignerOpts = crypto.Hash(0)
	digest := []byte(input)
	if k.Alg != "EdDSA" {
		hash = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[k.Alg[2:]]
		h := hash.New()
		_, _ = h.Write(digest) // it never returns an error
		digest, options = h.Sum(nil), hash
	}
	if strings.HasPrefix(k.Alg, "PS") {
		options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	if private, ok := k.Private.(*ecdsa.PrivateKey); ok {
		r, s, err := ecdsa.Sign(rand.Reader, private, digest)
		if err != nil {
			panic(err)
		}
		size := (private.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	}
	signature, err := k.Private.Sign(rand.Reader, digest, options)
	if err != nil {
		panic(err)
	}
	return signature
}

func text(o Object) string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Base64 encodes base64url without padding.
func Base64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
