// Package certstest issues certificates for tests.
package certstest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"
)

// Authority issues certificates.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	PEM  []byte // its certificate
}

// NewAuthority returns a new authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Plant Store test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{key: key, cert: cert, PEM: encode("CERTIFICATE", der)}, nil
}

// Pool returns a pool with the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Leaf describes a certificate. The zero value is valid for localhost and 127.0.0.1 for a day, for servers and for
// clients, with an ECDSA key.
type Leaf struct {
	Name                string // the common name
	DNSNames            []string
	NotBefore, NotAfter time.Time
	RSA                 bool // an RSA key of 2048 bits
}

// Issue returns a new certificate and its key in PEM form.
func (a *Authority) Issue(l Leaf) (cert, key []byte, err error) {
	private, err := newKey(l.RSA)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: l.Name}, NotBefore: l.NotBefore, NotAfter: l.NotAfter,
		DNSNames: append([]string{"localhost"}, l.DNSNames...), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", encoded), err
}

func newKey(useRSA bool) (crypto.Signer, error) {
	if useRSA {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Write issues a certificate and writes it and its key to files, each in one step.
func (a *Authority) Write(l Leaf, certFile, keyFile string) error {
	cert, key, err := a.Issue(l)
	if err != nil {
		return err
	}
	return errors.Join(Replace(certFile, cert), Replace(keyFile, key))
}

// Replace replaces a file in one step.
func Replace(file string, content []byte) error {
	const onlyOwner = 0o600
	if err := os.WriteFile(file+".new", content, onlyOwner); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
