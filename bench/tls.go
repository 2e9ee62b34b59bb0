package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const phaseTLS = "tls"

// secured compares Plant Store with the floor, over plain HTTP and over TLS with
// keep-alive. The four runs of a round follow each other, in an order that changes
// from round to round.
func (b *bench) secured(ctx context.Context) error {
	runs := []loadSpec{
		{contender: floorName},
		{contender: floorName, tls: true},
		{contender: productName},
		{contender: productName, tls: true},
	}
	for round := b.round; round < b.round+b.phaseRounds(); round++ {
		for _, connections := range b.connections {
			for i := range runs {
				spec := runs[(round+i)%len(runs)]
				spec.phase, spec.set, spec.round, spec.connections = phaseTLS, setShared, round, connections
				spec.order, spec.time = orderRandom, b.duration
				if err := b.load(ctx, spec); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tlsTargets compares the rate of Plant Store over TLS with that of the floor over
// TLS, as a fraction of the same ratio over plain HTTP.
func (r *results) tlsTargets(t *targets) {
	for _, connections := range []int64{64, 256} {
		runs := func(contender string, overTLS bool) loads {
			return r.loads.where(func(l loadRun) bool {
				return l.Phase == phaseTLS && l.Contender == contender && l.TLS == overTLS && l.Connections == connections
			})
		}
		plain := spreadOf(runs(productName, false).ratios(runs(floorName, false), rate)) // its median is the divisor
		var fractions []float64
		for _, ratio := range runs(productName, true).ratios(runs(floorName, true), rate) {
			if plain.n > 0 {
				fractions = append(fractions, ratio/plain.median)
			}
		}
		name := fmt.Sprintf("rate of plantstore ÷ floor over TLS ÷ the same over HTTP, %d connections", connections)
		t.addRatio(name, true, 0.9, fractions)
	}
}

// certificate is a certificate for 127.0.0.1 and its key, in PEM files.
type certificate struct {
	certFile, keyFile string
	client            *http.Client // trusts it
}

// newCertificate writes a certificate for a day to a directory.
func newCertificate(dir string) (c certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return c, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	c.certFile, c.keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	c.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
	return c, errors.Join(
		os.WriteFile(c.certFile, certPEM, 0o600),
		os.WriteFile(c.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	)
}

// tlsFlags returns the flags of a server with TLS: dashes is "-" or "--".
func (b *bench) tlsFlags(s *server, dashes string) []string {
	if !s.tls {
		return nil
	}
	return []string{dashes + "tls-cert", b.certificate.certFile, dashes + "tls-key", b.certificate.keyFile}
}

// url returns the URL of the server.
func (s *server) url() string {
	if s.tls {
		return "https://" + s.address
	}
	return "http://" + s.address
}
