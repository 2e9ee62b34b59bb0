package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	jose "github.com/go-jose/go-jose/v4"
)

// keysMax bounds the keys of a set. An issuer publishes two or three.
const keysMax = 100

// key is a public key for signatures.
type key struct {
	id     string
	alg    string // the only algorithm of the key; empty: any that fits its type
	public any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// keySet is the usable keys of an issuer, and the tokens that they have verified.
type keySet struct {
	keys     []key
	verified *cache
}

// fits reports for each accepted algorithm (RFC 7518 section 3, RFC 8037) whether a key is of
// its type. There is neither none nor HMAC, and an ECDSA algorithm has one curve.
var fits = map[jose.SignatureAlgorithm]func(public any) bool{
	jose.RS256: isRSA, jose.RS384: isRSA, jose.RS512: isRSA,
	jose.PS256: isRSA, jose.PS384: isRSA, jose.PS512: isRSA,
	jose.ES256: isOnCurve(elliptic.P256()),
	jose.ES384: isOnCurve(elliptic.P384()),
	jose.ES512: isOnCurve(elliptic.P521()),
	jose.EdDSA: func(public any) bool { _, ok := public.(ed25519.PublicKey); return ok },
}

func isRSA(public any) bool { _, ok := public.(*rsa.PublicKey); return ok }

func isOnCurve(curve elliptic.Curve) func(public any) bool {
	return func(public any) bool {
		k, ok := public.(*ecdsa.PublicKey)
		return ok && k.Curve == curve
	}
}

// parseKeySet parses a JWK Set (RFC 7517 section 5). It omits keys that verify no accepted
// signature; unusable is their number. A set without a usable key is an error.
func parseKeySet(text []byte) (set *keySet, unusable int, err error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, 0, fmt.Errorf("the key set is not JSON: %w", err)
	}
	if len(raw.Keys) > keysMax {
		return nil, 0, fmt.Errorf("the key set has %d keys; at most %d are supported", len(raw.Keys), keysMax)
	}
	set = &keySet{verified: newCache()}
	for _, text := range raw.Keys {
		if k, ok := parseKey(text); ok {
			set.keys = append(set.keys, k)
		}
	}
	unusable = len(raw.Keys) - len(set.keys)
	if len(set.keys) == 0 {
		return nil, unusable, fmt.Errorf("the key set has no usable key; %d are unusable", unusable)
	}
	return set, unusable, nil
}

func parseKey(text []byte) (key, bool) {
	var jwk jose.JSONWebKey
	var uses struct {
		KeyOps []string `json:"key_ops"`
	}
	if jwk.UnmarshalJSON(text) != nil || json.Unmarshal(text, &uses) != nil {
		return key{}, false
	}
	verifies := (jwk.Use == "" || jwk.Use == "sig") && (uses.KeyOps == nil || slices.Contains(uses.KeyOps, "verify"))
	k := key{id: jwk.KeyID, alg: jwk.Algorithm, public: jwk.Key}
	return k, verifies && isPublic(jwk.Key) && isStrong(jwk.Key) && k.hasAlgorithm()
}

// isPublic refuses private keys, which an issuer must never publish, and symmetric ones.
func isPublic(public any) bool {
	switch public.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// isStrong refuses RSA keys below 2048 bits (RFC 7518 section 3.3), and those whose
// verification takes long.
func isStrong(public any) bool {
	const bitsMin, bitsMax, exponentMin = 2048, 8192, 65537
	k, ok := public.(*rsa.PublicKey)
	return !ok || bitsMin <= k.N.BitLen() && k.N.BitLen() <= bitsMax && k.E >= exponentMin
}

// hasAlgorithm reports whether an accepted algorithm can use the key.
func (k key) hasAlgorithm() bool {
	for alg := range fits {
		if k.verifies(alg) {
			return true
		}
	}
	return false
}

// verifies reports whether the key may verify signatures of an algorithm.
func (k key) verifies(alg jose.SignatureAlgorithm) bool {
	fit, ok := fits[alg]
	return ok && fit(k.public) && (k.alg == "" || k.alg == string(alg))
}

var (
	errAlgorithm    = errors.New("alg is not an accepted algorithm")
	errKeyID        = errors.New("kid is not a string")
	errKeyUnknown   = errors.New("the issuer has no key with this kid for this alg")
	errKeyAmbiguous = errors.New("more than one key of the issuer fits this kid and alg")
	errSignature    = errors.New("the signature is invalid")
)

// find returns the only key for the header of a token. kid selects among the keys of the set
// and nothing else; jku, jwk, x5u and x5c of the header are not read.
func (s *keySet) find(header object) (found key, alg jose.SignatureAlgorithm, err error) {
	name, _ := header["alg"].(string)
	alg = jose.SignatureAlgorithm(name)
	if fits[alg] == nil {
		return key{}, "", errAlgorithm
	}
	kid, named := header["kid"]
	id, isString := kid.(string)
	if named && !isString {
		return key{}, "", errKeyID
	}
	n := 0
	for _, k := range s.keys {
		if k.verifies(alg) && (!named || k.id == id) {
			found = k
			n++
		}
	}
	switch n {
	case 0:
		return key{}, "", errKeyUnknown
	case 1:
		return found, alg, nil
	default:
		return key{}, "", errKeyAmbiguous
	}
}

// verify checks the signature of a token.
func (s *keySet) verify(t parsed) error {
	k, alg, err := s.find(t.header)
	if err != nil {
		return err
	}
	signed, err := jose.ParseSignedCompact(t.text, []jose.SignatureAlgorithm{alg})
	if err != nil {
		return errSignature
	}
	if _, err := signed.Verify(k.public); err != nil {
		return errSignature
	}
	return nil
}

// equal reports whether two sets have the same keys in the same order.
func (s *keySet) equal(other *keySet) bool {
	return other != nil && slices.EqualFunc(s.keys, other.keys, func(a, b key) bool {
		return reflect.DeepEqual(a, b)
	})
}
