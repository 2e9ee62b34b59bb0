package oidctest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"
)

// BadJWT is a JWT that no server accepts.
type BadJWT struct{ Name, JWT, Reason string }

// Keys are the keys that the issuer of BadJWTs publishes.
type Keys struct{ EC, RSA, P384, Encryption, Weak, Twin, Twin2 Key }

// NewKeys returns new keys.
func NewKeys() Keys {
	k := Keys{
		EC: NewKey("ec", "ES256"), RSA: NewKey("rsa", "RS256"), P384: NewKey("p384", "ES384"),
		Encryption: NewKey("encryption", "ES256"), Weak: Key{ID: "weak", Alg: "RS256"},
		Twin: NewKey("twin", "ES256"), Twin2: NewKey("twin", "ES256"),
	}
	k.Encryption.Extra = Object{"use": "enc"}
	k.RSA.Extra = Object{"alg": "RS256"}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		panic(err)
	}
	k.Weak.Private = weak
	return k
}

// Published returns the keys as an issuer publishes them.
func (k Keys) Published() []Key {
	return []Key{k.EC, k.RSA, k.P384, k.Encryption, k.Weak, k.Twin, k.Twin2}
}

// BadJWTs returns JWTs of an issuer that publishes the keys. Each has one defect, and the reason for which a server
// refuses it.
func BadJWTs(i *Issuer, k Keys, now time.Time) []BadJWT {
	return append(append(badForms(i, k, now), badHeaders(i, k, now)...), badClaims(i, k, now)...)
}

func badForms(i *Issuer, k Keys, now time.Time) []BadJWT {
	good := i.JWT(now, nil)
	claims := text(i.Claims(now))
	header := text(k.EC.Header())
	parts := strings.Split(good, ".")
	signature := func(b []byte) string { return parts[0] + "." + parts[1] + "." + Base64(b) }
	with := func(old, changed string) string { return strings.Replace(claims, old, changed, 1) }
	half := make([]byte, 32)
	const bits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	// The last character of 64 bytes has four unused bits.
	last := strings.IndexByte(bits, good[len(good)-1])
	const empty = "signature: it is empty or not base64url"
	const notBase64, notJSON = "it is not base64url", "it is not a JSON object in UTF-8 without duplicate members"
	const space = "header: it has white space before its first member"
	const invalid = "the signature is invalid"
	return []BadJWT{
		{"no signature", parts[0] + "." + parts[1] + ".", empty},
		{"only dots", "..", "header: " + notJSON},
		{"no header", "." + parts[1] + "." + parts[2], "header: " + notJSON},
		{"no claims", parts[0] + ".." + parts[2], "claims: " + notJSON},
		{"padding of the signature", good + "==", empty},
		{"base64 with a plus sign", parts[0] + "+." + parts[1] + "." + parts[2], "header: " + notBase64},
		{"unused bits in the signature", good[:len(good)-1] + string(bits[last|1]), empty},
		{"signature of random bytes", signature([]byte(rand.Text() + rand.Text() + rand.Text())[:64]), invalid},
		{"signature of zeros", signature(make([]byte, 64)), invalid},
		{"signature with r = 0", signature(slices.Concat(half, []byte(strings.Repeat("x", 32)))), invalid},
		{"short signature", signature(make([]byte, 63)), invalid},
		{"long signature", signature(make([]byte, 65)), invalid},
		{"signature in DER", signature([]byte{0x30, 6, 2, 1, 1, 2, 1, 1}), invalid},
		{"signature of another JWT", parts[0] + "." + Base64([]byte(with("web-shop", "web-shoq"))) + "." + parts[2], invalid},
		{"claims are a text", k.EC.SignText(header, `"a"`), "claims: " + notJSON},
		{"claims are null", k.EC.SignText(header, "null"), "claims: " + notJSON},
		{"claims are an array", k.EC.SignText(header, "["+claims+"]"), "claims: " + notJSON},
		{"two values", k.EC.SignText(header, claims+claims), "claims: " + notJSON},
		{"claims are a JWT", k.EC.SignText(text(Changed(k.EC.Header(), Object{"cty": "JWT"})), good), "claims: " + notJSON},
		{"invalid UTF-8", k.EC.SignText(header, with("web-shop", "web\xff")), "claims: " + notJSON},
		{"member twice", k.EC.SignText(header, with("{", `{"sub":"admin",`)), "claims: " + notJSON},
		{"member twice by an escape", k.EC.SignText(header, with("{", `{"\u0073ub":"admin",`)), "claims: " + notJSON},
		{"header after white space", k.EC.SignText(" "+header, claims), space},
		{"header with white space", k.EC.SignText(strings.Replace(header, "{", "{ ", 1), claims), space},
		{
			"header member twice", k.EC.SignText(strings.Replace(header, "{", `{"alg":"none",`, 1), claims),
			"header: " + notJSON,
		},
		{
			"deep claims", k.EC.SignText(header, with("{", `{"a":`+strings.Repeat("[", 9)+strings.Repeat("]", 9)+",")),
			"claims: it nests deeper than 8 levels",
		},
		{"longer than 8 KiB", i.JWT(now, Object{"a": strings.Repeat("a", 8000)}), "it is longer than 8192 bytes"},
	}
}

func badHeaders(i *Issuer, k Keys, now time.Time) []BadJWT {
	claims := i.Claims(now)
	with := func(changes Object) string { return k.EC.Sign(Changed(k.EC.Header(), changes), claims) }
	foreign := NewKey("ec", "ES256") // an attacker's
	forged := func(changes Object) string { return foreign.Sign(Changed(foreign.Header(), changes), claims) }
	const typ = "typ is not at+jwt or jwt"
	const alg, invalid = "alg is not an accepted algorithm", "the signature is invalid"
	const unknown = "the issuer has no key with this kid for this alg"
	const ambiguous = "more than one key of the issuer fits this kid and alg"
	const crit = "the header has crit, which is not supported"
	none := text(Object{"typ": "at+jwt", "alg": "none", "kid": "ec"})
	unsigned := Base64([]byte(none)) + "." + Base64([]byte(text(claims))) + "."
	list := []BadJWT{
		{"none", unsigned + "AA", alg},
		{"none without a signature", unsigned, "signature: it is empty or not base64url"},
		{"empty typ", with(Object{"typ": ""}), typ},
		{"typ is null", k.EC.SignText(`{"typ":null,"alg":"ES256","kid":"ec"}`, text(claims)), typ},
		{"typ of a logout token", with(Object{"typ": "logout+jwt"}), typ},
		{"typ with a suffix", with(Object{"typ": "at+jwt "}), typ},
		{"typ is a number", with(Object{"typ": 1}), typ},
		{
			"audience is the client",
			k.EC.Sign(Changed(k.EC.Header(), Object{"typ": "JWT"}), Changed(claims, Object{"azp": Audience})),
			"the audience may be the client of the token (azp), so it may be an ID token",
		},
		{
			"client is an array",
			k.EC.Sign(Changed(k.EC.Header(), Object{"typ": "JWT"}), Changed(claims, Object{"azp": []string{Audience}})),
			"the audience may be the client of the token (azp), so it may be an ID token",
		},
		{"critical extension", with(Object{"crit": []string{"exp"}, "exp": 1}), crit},
		{"empty crit", with(Object{"crit": []string{}}), crit},
		{"b64 without crit", with(Object{"b64": false}), "the header has b64, which is not supported"},
		{"encrypted", with(Object{"enc": "A256GCM"}), "the header has enc, which is not supported"},
		{"compressed", with(Object{"zip": "DEF"}), "the header has zip, which is not supported"},
		{"HMAC with the public key in PEM", hmacWith(publicPEM(k.RSA), "rsa", claims), alg},
		{"HMAC with the public key in DER", hmacWith(publicDER(k.RSA), "rsa", claims), alg},
		{"HMAC with an empty key", hmacWith(nil, "ec", claims), alg},
		{"alg in lower case", with(Object{"alg": "es256"}), alg},
		{"without alg", with(Object{"alg": nil}), alg},
		{"alg is an array", with(Object{"alg": []string{"ES256"}}), alg},
		{"alg of another curve", with(Object{"alg": "ES384"}), unknown},
		{"alg of another type", with(Object{"alg": "RS256"}), unknown},
		{"alg that the key excludes", Key{ID: "rsa", Alg: "PS256", Private: k.RSA.Private}.Sign(
			Object{"typ": "at+jwt", "alg": "PS256", "kid": "rsa"}, claims), unknown},
		{"kid of a key of another type", with(Object{"kid": "rsa"}), unknown},
		{"kid of a key on another curve", with(Object{"kid": "p384"}), unknown},
		{"kid of an encryption key", k.Encryption.Sign(k.Encryption.Header(), claims), unknown},
		{"kid of a key of 1024 bits", k.Weak.Sign(k.Weak.Header(), claims), unknown},
		{"kid of two keys", k.Twin.Sign(k.Twin.Header(), claims), ambiguous},
		{"without kid, and several keys fit", with(Object{"kid": nil}), ambiguous},
		{"kid is a number", with(Object{"kid": 1}), "kid is not a string"},
		{"kid is null", k.EC.SignText(`{"typ":"at+jwt","alg":"ES256","kid":null}`, text(claims)), "kid is not a string"},
		{"kid in other case", with(Object{"kid": "EC"}), unknown},
		{"kid with a lookalike letter", with(Object{"kid": "\u0435c"}), unknown},
		{"key of an attacker", forged(nil), invalid},
		{"key of an attacker in jwk", forged(Object{"jwk": foreign.JWK()}), invalid},
		{"key of an attacker at jku", forged(Object{"jku": "http://127.0.0.1:1/keys"}), invalid},
		{"key of an attacker at x5u", forged(Object{"x5u": "http://127.0.0.1:1/cert"}), invalid},
		{"key of an attacker in x5c", forged(Object{"x5c": []string{"MIIB"}}), invalid},
		{"key of an attacker in jwk, with its kid", forged(Object{"jwk": foreign.JWK(), "kid": "evil"}), unknown},
	}
	for _, kid := range []string{
		"../../../../dev/null", "' OR 1=1 --", "ec\x00", "http://127.0.0.1:1/key", "", "%s%n", strings.Repeat("k", 4000),
	} {
		list = append(list, BadJWT{fmt.Sprintf("kid %.20q", kid), with(Object{"kid": kid}), unknown})
	}
	return list
}

// badClaim is a change of good claims that makes a JWT invalid.
type badClaim struct {
	name    string
	changes Object
	reason  string
}

// badTimes returns changes of the times of a JWT.
func badTimes(now time.Time) []badClaim {
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	fraction := func(d time.Duration) json.Number { return json.Number(fmt.Sprintf("%d.9", at(d))) }
	const past, future = "exp is in the past", "nbf or iat is in the future"
	const lifetime = "the time from iat to exp is not between 0 and 30 days"
	missing := func(name string) string { return name + " is missing or not a number of seconds since 1970" }
	return []badClaim{
		{"expired", Object{"iat": at(-2 * time.Hour), "exp": at(-2 * time.Minute)}, past},
		{"expired beyond the leeway", Object{"iat": at(-time.Hour), "exp": at(-60 * time.Second)}, past},
		{"without exp", Object{"exp": nil}, missing("exp")},
		{"exp is a text", Object{"exp": fmt.Sprint(at(time.Hour))}, missing("exp")},
		{"expired with a fraction", Object{"iat": at(-time.Hour), "exp": fraction(-61 * time.Second)}, past},
		{"exp has an exponent", Object{"exp": json.Number("1e10")}, lifetime},
		{
			"exp is 1e400",
			Object{"exp": json.Number("1e400")},
			"claims: it is not a JSON object in UTF-8 without duplicate members",
		},
		{"exp is beyond 64 bits", Object{"exp": json.Number("18446744073709551616")}, missing("exp")},
		{"exp is in the year 10000", Object{"exp": json.Number("253402300800")}, missing("exp")},
		{"exp is negative", Object{"exp": -1}, missing("exp")},
		{"iat is -0.5", Object{"iat": -0.5}, missing("iat")},
		{"exp is 1e300", Object{"exp": json.Number("1e300")}, missing("exp")},
		{"exp is after iat by a fraction", Object{"exp": fraction(0)}, lifetime},
		{"valid for 30 days and 1.9 s", Object{"exp": fraction(30*24*time.Hour + time.Second)}, lifetime},
		{"exp is true", Object{"exp": true}, missing("exp")},
		{"exp in milliseconds", Object{"exp": now.Add(time.Hour).UnixMilli()}, missing("exp")},
		{"valid for 31 days", Object{"exp": at(31 * 24 * time.Hour)}, lifetime},
		{"exp before iat", Object{"exp": at(-10 * time.Second)}, lifetime},
		{"without iat", Object{"iat": nil}, missing("iat")},
		{"iat in the future", Object{"iat": at(2 * time.Minute)}, future},
		{"iat is a text", Object{"iat": "now"}, missing("iat")},
		{"nbf in the future", Object{"nbf": at(2 * time.Minute)}, future},
		{"nbf is a text", Object{"nbf": "now"}, missing("nbf")},
	}
}

// badIdentities returns changes of the other claims.
func badIdentities(i *Issuer) []badClaim {
	wrong := func(name string) string { return name + " is missing, not a string, empty or longer than 255 bytes" }
	const aud, audType, iss = "aud does not have the audience of this store", "aud is not a string and not an array",
		"iss is another issuer"
	const console = "aud has the client id of the console, so it is an ID token"
	many := make([]string, 200)
	for n := range many {
		many[n] = "https://a" + fmt.Sprint(n)
	}
	return []badClaim{
		{"other issuer", Object{"iss": "https://evil.example"}, iss},
		{"issuer with a slash", Object{"iss": i.URL + "/"}, iss},
		{"issuer in upper case", Object{"iss": strings.ToUpper(i.URL)}, iss},
		{"without iss", Object{"iss": nil}, iss},
		{"iss is an array", Object{"iss": []string{i.URL}}, iss},
		{"other audience", Object{"aud": "https://other.example"}, aud},
		{"audience with a slash", Object{"aud": Audience + "/"}, aud},
		{"audience within a text", Object{"aud": Audience + " https://other.example"}, aud},
		{"without aud", Object{"aud": nil}, aud},
		{"aud is a number", Object{"aud": 1}, audType},
		{"aud is an object", Object{"aud": Object{Audience: true}}, audType},
		{"aud is empty", Object{"aud": []string{}}, aud},
		{"aud has a number", Object{"aud": []any{Audience, 1}}, "aud has an entry that is not a string"},
		{"200 other audiences", Object{"aud": many}, aud},
		{"without sub", Object{"sub": nil}, wrong("sub")},
		{"empty sub", Object{"sub": ""}, wrong("sub")},
		{"sub of spaces", Object{"sub": "  "}, wrong("sub")},
		{"sub is a number", Object{"sub": 1}, wrong("sub")},
		{"long sub", Object{"sub": strings.Repeat("s", 256)}, wrong("sub")},
		{"sub with a line break", Object{"sub": "a\nlevel=INFO"}, "sub has an invisible character"},
		{"sub with NUL", Object{"sub": "a\x00"}, "sub has an invisible character"},
		{"sub with another direction", Object{"sub": "a\u202eb"}, "sub has an invisible character"},
		{"sub is a token", Object{"sub": "pst_0000"}, "sub looks like a secret"},
		{"sub is a JWT", Object{"sub": "eyJhbGciOiJub25lIn0.eyJ9.AA"}, "sub looks like a secret"},
		{"jti is a number", Object{"jti": 7}, wrong("jti")},
		{"jti is empty", Object{"jti": ""}, wrong("jti")},
		{"ID token for the console", Object{"aud": []string{Audience, ClientID}}, console},
		{"ID token of Keycloak", Object{"typ": "ID"}, "the claim typ does not name an access token"},
		{"offline token of Keycloak", Object{"typ": "Offline"}, "the claim typ does not name an access token"},
		{"ID token of Cognito", Object{"token_use": "id"}, "the claim token_use does not name an access token"},
		{"refresh token", Object{"tokenType": "refresh-token"}, "the claim tokenType does not name an access token"},
		{"kind is an array", Object{"token_type": []string{"bearer"}}, "the claim token_type does not name an access token"},
		{"logout token", Object{"events": Object{}}, "it has the claim events of a logout token"},
		{"nonce of an ID token", Object{"nonce": "n"}, "it has the claim nonce of an ID token"},
		{"at_hash of an ID token", Object{"at_hash": "h"}, "it has the claim at_hash of an ID token"},
		{"c_hash of an ID token", Object{"c_hash": "h"}, "it has the claim c_hash of an ID token"},
		{"bound to a key", Object{"cnf": Object{"jkt": "x"}}, "it has the claim cnf of a token that is bound to a key"},
		{"scope is a number", Object{"scope": 1}, "scope is not a string and not an array"},
		{"scope has a number", Object{"scope": []any{"plants:create", 1}}, "scope has an entry that is not a string"},
	}
}

// badClaims returns JWTs with claims that RFC 9068 forbids.
func badClaims(i *Issuer, k Keys, now time.Time) []BadJWT {
	var list []BadJWT
	for _, row := range append(badTimes(now), badIdentities(i)...) {
		list = append(list, BadJWT{row.name, k.EC.Sign(k.EC.Header(), Changed(i.Claims(now), row.changes)), row.reason})
	}
	surrogate := strings.Replace(text(i.Claims(now)), `"sub":"web-shop"`, `"sub":"\ud800"`, 1)
	return append(list, BadJWT{
		"sub is half of a pair", k.EC.SignText(text(k.EC.Header()), surrogate), "sub has an invisible character",
	})
}

// hmacWith returns a JWT with an HMAC of that key.
func hmacWith(key []byte, kid string, claims Object) string {
	input := Base64([]byte(text(Object{"typ": "at+jwt", "alg": "HS256", "kid": kid}))) + "." + Base64([]byte(text(claims)))
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(input)) // it never returns an error
	return input + "." + Base64(mac.Sum(nil))
}

func publicDER(k Key) []byte {
	der, err := x509.MarshalPKIXPublicKey(k.Private.Public())
	if err != nil {
		panic(err)
	}
	return der
}

func publicPEM(k Key) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER(k)})
}
