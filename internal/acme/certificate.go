package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

const pemKey = "PRIVATE KEY"

// newKey returns a new private key. Every CA signs keys of P-256.
func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// encodeKey returns the key as PEM in PKCS #8 form.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

// decodeKey is the inverse of encodeKey.
func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemKey {
		return nil, errors.New("the key is not PEM of a private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key is not a private key in PKCS #8 form") // without a part of the key
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not an ECDSA key")
	}
	return ec, nil
}

// parseCertificate parses a private key and its certificate chain. It refuses a chain whose first certificate has
// another key or another name. An expired certificate is not an error.
func parseCertificate(text []byte, name string) (*tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	if certificate.Leaf == nil { // GODEBUG=x509keypairleaf=0
		if certificate.Leaf, err = x509.ParseCertificate(certificate.Certificate[0]); err != nil {
			return nil, err
		}
	}
	if err := certificate.Leaf.VerifyHostname(name); err != nil {
		return nil, err
	}
	if lifetime(certificate.Leaf) <= 0 {
		return nil, errors.New("the certificate ends before it begins")
	}
	return &certificate, nil
}

// issuedBy returns the first line of a stored certificate, which is outside of its PEM blocks. It has the directory:
// after a change of the setting, a certificate of a test CA must not stay in use until its renewal.
func issuedBy(directory string) []byte { return []byte("Directory: " + directory + "\n") }

// accept checks the certificate of a CA's response.
func accept(text []byte, name string) (*tls.Certificate, error) {
	certificate, err := parseCertificate(text, name)
	if err != nil {
		return nil, fmt.Errorf("the CA returned an unusable certificate: %w", err)
	}
	if time.Now().After(certificate.Leaf.NotAfter) {
		return nil, fmt.Errorf("the CA returned a certificate that expired at %s; check the clock",
			certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return certificate, nil
}

func lifetime(leaf *x509.Certificate) time.Duration { return leaf.NotAfter.Sub(leaf.NotBefore) }

// defaultRenewal is the time of the renewal without a window of the CA: a third of the lifetime before the end.
func defaultRenewal(leaf *x509.Certificate) time.Time { return leaf.NotAfter.Add(-lifetime(leaf) / 3) }

// earliestRenewal is the earliest time of a renewal, also if the window of the CA has passed. It bounds the orders that
// the clock or the response of a CA can cause.
func earliestRenewal(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(min(2*time.Hour, lifetime(leaf)/3))
}
