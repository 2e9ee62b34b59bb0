// Package pebbletest runs Pebble, a CA for tests of ACME clients, on loopback.
package pebbletest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"plantstore/internal/childtest"
)

// Config configures a CA.
type Config struct {
	TLSPort     int           // at which it checks tls-alpn-01
	NonceReject int           // good nonces that it rejects, in per cent
	ShortLived  bool          // it also has the profile of Let's Encrypt for certificates of 160 hours
	Lifetime    time.Duration // how long certificates are valid, in whole seconds; 0: 90 days
}

// CA is a running Pebble.
type CA struct {
	Directory string         // its https URL
	RootsFile string         // PEM file that verifies the TLS certificate of the directory
	Roots     *x509.CertPool // the same

	dir, management string
	program         string
	environ         []string
	process         *childtest.Process
	output          childtest.Output
}

// Start builds Pebble from tools/pebble.mod and starts it. The caller stops it.
func Start(ctx context.Context, c Config) (*CA, error) {
	dir, err := os.MkdirTemp("", "pebbletest")
	if err != nil {
		return nil, err
	}
	ca, err := prepare(ctx, dir, c)
	if err == nil {
		err = ca.Resume(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return ca, nil
}

func prepare(ctx context.Context, dir string, c Config) (*CA, error) {
	program, err := childtest.Build(ctx, "pebble")
	if err != nil {
		return nil, err
	}
	host, addresses, err := childtest.FreeAddresses(ctx, 2)
	if err != nil {
		return nil, err
	}
	ca := &CA{
		Directory: "https://" + addresses[0] + "/dir", RootsFile: filepath.Join(dir, "roots.pem"),
		Roots: x509.NewCertPool(), dir: dir, management: "https://" + addresses[1], program: program,
		environ: append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0",
			fmt.Sprintf("PEBBLE_WFE_NONCEREJECT=%d", c.NonceReject)),
	}
	certificate, key, err := selfSigned(host)
	if err != nil {
		return nil, err
	}
	ca.Roots.AppendCertsFromPEM(certificate)
	profile := map[string]any{"description": "test", "validityPeriod": int(cmp.Or(c.Lifetime, 90*24*time.Hour).Seconds())}
	profiles := map[string]any{"default": profile} // Pebble chooses one at random for an order without a profile
	if c.ShortLived {
		profiles["shortlived"] = map[string]any{"description": "six days", "validityPeriod": 160 * 60 * 60}
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": addresses[0], "managementListenAddress": addresses[1],
		"certificate": ca.RootsFile, "privateKey": filepath.Join(dir, "key.pem"),
		"tlsPort": c.TLSPort, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   profiles,
	}})
	if err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{"roots.pem": certificate, "key.pem": key, "config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return ca, nil
}

// selfSigned returns a certificate for a host and its key, in PEM.
func selfSigned(host net.IP) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pebbletest"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{host}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), err
}

// Resume starts the CA again after Pause, at the same address. It has lost its accounts, orders and roots.
func (c *CA) Resume(ctx context.Context) (err error) {
	command := exec.CommandContext(context.WithoutCancel(ctx), c.program, "-config", filepath.Join(c.dir, "config.json"))
	command.Env = c.environ
	c.process, err = childtest.Start(ctx, command, syscall.SIGKILL, &c.output, func() bool {
		_, err := c.IssuerRoots(ctx)
		return err == nil
	})
	return err
}

// Pause stops the CA; Resume starts it again.
func (c *CA) Pause() { c.process.End() }

// Stop stops the CA and removes its files.
func (c *CA) Stop() error {
	c.Pause()
	return os.RemoveAll(c.dir)
}

// Orders returns the number of orders since Start.
func (c *CA) Orders() int { return strings.Count(c.output.String(), "Added order ") }

// Output returns the log of Pebble.
func (c *CA) Output() string { return c.output.String() }

// IssuerRoots returns the roots that verify the certificates of this CA.
func (c *CA) IssuerRoots(ctx context.Context) (*x509.CertPool, error) {
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.management+"/roots/0", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("pebble returned no root: %.200s", text)
	}
	return roots, nil
}
