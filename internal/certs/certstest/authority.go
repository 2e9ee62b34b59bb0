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
	"encoding/asn1"
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
func NewAuthority() (*Authority, error) { return newAuthority("Plant Store test authority", nil) }

// Intermediate returns a new authority with a certificate of a.
func (a *Authority) Intermediate() (*Authority, error) {
	return newAuthority("Plant Store test intermediate", a)
}

// newAuthority returns an authority with a certificate of its issuer; nil: with its own.
func newAuthority(name string, issuer *Authority) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if issuer == nil {
		issuer = &Authority{key: key, cert: template}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, key.Public(), issuer.key)
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
	Logged              bool // with timestamps of a public log, as public authorities issue it (RFC 6962)
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
	if l.Logged {
		template.ExtraExtensions = []pkix.Extension{{
			Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: []byte{asn1.TagOctetString, 2, 0, 0},
		}}
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
