package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// newKey returns a new private key, and its form of RFC 5915. Every CA signs keys of P-256.
func newKey() (key *ecdsa.PrivateKey, encoded []byte, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	encoded, err = x509.MarshalECPrivateKey(key)
	return key, encoded, err
}

// parseCertificate parses a private key and its certificate chain. It refuses a chain whose first certificate has
// another key or another name. An expired certificate is not an error.
func parseCertificate(text []byte, name string) (*tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	if err := certificate.Leaf.VerifyHostname(name); err != nil {
		return nil, err
	}
	if !certificate.Leaf.NotBefore.Before(certificate.Leaf.NotAfter) {
		return nil, errors.New("the certificate ends before it begins")
	}
	return &certificate, nil
}

// issuedBy returns the first line of a stored certificate, which is outside of its PEM blocks. It has the directory:
// after a change of the setting, a certificate of a test CA must not stay in use until its renewal.
func issuedBy(directory string) []byte { return []byte("Directory: " + directory + "\n") }
