package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jose "github.com/go-jose/go-jose/v4"
)

// keysMax bounds the keys of a set. An issuer publishes two or three.
const keysMax = 100

// keyTypes has the accepted algorithms (RFC 7518 section 3, RFC 8037), and the type or the curve of the key of each.
// There is neither none nor HMAC.
var keyTypes = map[jose.SignatureAlgorithm]string{
	jose.RS256: "RSA", jose.RS384: "RSA", jose.RS512: "RSA", jose.PS256: "RSA", jose.PS384: "RSA", jose.PS512: "RSA",
	jose.ES256: "P-256", jose.ES384: "P-384", jose.ES512: "P-521", jose.EdDSA: "Ed25519",
}

// key is a public key for signatures.
type key struct {
	id     string
	alg    jose.SignatureAlgorithm // the only algorithm of the key; empty: any for its type
	typ    string                  // as in keyTypes
	public any                     // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// keySet is the usable keys of an issuer, and the tokens that they have verified.
type keySet struct {
	keys     []key
	unusable int // keys that verify no accepted signature
	verified *cache
}

func newKeySet() *keySet { return &keySet{verified: newCache()} }

// parseKeySet parses a JWK Set (RFC 7517 section 5). It omits keys that verify no accepted signature. A set without a
// usable key is an error.
func parseKeySet(text []byte) (*keySet, error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("the key set is not JSON: %w", err)
	}
	if len(raw.Keys) > keysMax {
		return nil, fmt.Errorf("the key set has %d keys; at most %d are supported", len(raw.Keys), keysMax)
	}
	set := newKeySet()
	for _, text := range raw.Keys {
		if k, ok := parseKey(text); ok {
			set.keys = append(set.keys, k)
		}
	}
	set.unusable = len(raw.Keys) - len(set.keys)
	if len(set.keys) == 0 {
		return nil, fmt.Errorf("the key set has no usable key; %d are unusable", set.unusable)
	}
	return set, nil
}

func parseKey(text []byte) (k key, ok bool) {
	var jwk jose.JSONWebKey
	var uses struct {
		KeyOps []string `json:"key_ops"`
	}
	if jwk.UnmarshalJSON(text) != nil || json.Unmarshal(text, &uses) != nil {
		return k, false
	}
	k = key{jwk.KeyID, jose.SignatureAlgorithm(jwk.Algorithm), typeOfKey(jwk.Key), jwk.Key}
	verifies := (jwk.Use == "" || jwk.Use == "sig") && (uses.KeyOps == nil || slices.Contains(uses.KeyOps, "verify"))
	return k, verifies && k.typ != "" && (k.alg == "" || keyTypes[k.alg] == k.typ)
}

// typeOfKey returns the type or the curve of a public key, nothing for private and symmetric keys. RSA keys have at
// least 2048 bits (RFC 7518 section 3.3), and not so many that their verification takes long.
func typeOfKey(public any) string {
	const bitsMin, bitsMax, exponentMin = 2048, 8192, 65537
	switch k := public.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bitsMin <= bits && bits <= bitsMax && k.E >= exponentMin {
			return "RSA"
		}
	case *ecdsa.PublicKey:
		return k.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return ""
}

var errKeyUnknown = errors.New("the issuer has no key with this kid for this alg")

// verify checks the signature of a token with the only key for its header. kid selects among the keys of the set and
// nothing else; jku, jwk, x5u and x5c of the header are not read.
func (s *keySet) verify(t parsed) error {
	name, _ := t.header["alg"].(string)
	alg := jose.SignatureAlgorithm(name)
	if keyTypes[alg] == "" {
		return errors.New("alg is not an accepted algorithm")
	}
	kid, named := t.header["kid"]
	id, isString := kid.(string)
	if named && !isString {
		return errors.New("kid is not a string")
	}
	var fitting []any
	for _, k := range s.keys {
		if (!named || k.id == id) && k.typ == keyTypes[alg] && (k.alg == "" || k.alg == alg) {
			fitting = append(fitting, k.public)
		}
	}
	switch {
	case len(s.keys) == 0:
		return ErrNoKeys
	case len(fitting) == 0:
		return errKeyUnknown
	case len(fitting) > 1:
		return errors.New("more than one key of the issuer fits this kid and alg")
	}
	signed, err := jose.ParseSignedCompact(t.text, []jose.SignatureAlgorithm{alg})
	if err == nil {
		_, err = signed.Verify(fitting[0])
	}
	if err != nil {
		return errors.New("the signature is invalid") // the error of the package may have a part of the token
	}
	return nil
}
