package acme

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

const orderTimeMax = 5 * time.Minute

// order orders a certificate and installs it. Its caller has the lock of the orders. again is true after a failure.
func (s *Source) order(ctx context.Context, d *domain, again bool) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeMax)
	defer cancel()
	account, err := s.account(ctx)
	if err != nil {
		return nil, err
	}
	key, encoded, err := newKey()
	if err != nil {
		return nil, err
	}
	csr, err := acmez.NewCSR(key, []string{d.name})
	if err != nil {
		return nil, err
	}
	parameters, err := acmez.OrderParametersFromCSR(account, csr)
	if err != nil {
		return nil, err
	}
	if previous := d.certificate.Load(); previous != nil && !d.foreign && !again { // the CA may not know it any more
		parameters.Replaces = previous.Leaf // exempt from rate limits (RFC 9773 section 5)
	}
	if d.address {
		if parameters.Profile, err = s.addressProfile(ctx); err != nil {
			return nil, err
		}
	}
	client := acmez.Client{Client: s.client, ChallengeSolvers: map[string]acmez.Solver{
		acme.ChallengeTypeTLSALPN01: s.challenges, // one kind alone: a failed check counts against the CA's limits
	}}
	chains, err := client.ObtainCertificate(ctx, parameters)
	if err != nil {
		return nil, err
	}
	if len(chains) == 0 {
		return nil, errors.New("the CA returned no certificate")
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
	text := bytes.Join([][]byte{issuedBy(s.config.Directory), block, chains[0].ChainPEM}, nil)
	certificate, err := parseCertificate(text, d.name)
	if err == nil && time.Now().After(certificate.Leaf.NotAfter) {
		err = fmt.Errorf("it expired at %s; check the clock", certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("the CA returned an unusable certificate: %w", err)
	}
	d.install(certificate) // even if the storage fails: the CA limits the certificates of a name
	d.unsaved = text
	return certificate.Leaf, nil
}

// addressProfile returns the profile for certificates of addresses, which Let's Encrypt requires: it issues them for
// six days only. A CA without it uses its default.
func (s *Source) addressProfile(ctx context.Context) (string, error) {
	const profile = "shortlived"
	directory, err := s.client.GetDirectory(ctx)
	if err != nil || directory.Meta == nil || directory.Meta.Profiles[profile] == "" {
		return "", err
	}
	return profile, nil
}

const accountKey = "account.json"

type storedAccount struct {
	Email    string `json:"email"`
	Location string `json:"location"` // the URL that identifies the account at its CA
	Key      []byte `json:"key"`      // as newKey encodes it
}

// account returns the account of the stored key, or of a new one. The CA returns its account of a key, or
// registers a new one (RFC 8555 section 7.3.1): at the first order, after a change of the directory, and if it has lost
// the account, as test CAs do when they restart. The operator agreed to the terms of service when setting the
// e-mail address.
func (s *Source) account(ctx context.Context) (acme.Account, error) {
	stored, key, err := s.storedAccount(ctx)
	if err != nil {
		return acme.Account{}, err
	}
	account, err := s.client.NewAccount(ctx, acme.Account{
		Contact: []string{"mailto:" + s.config.Email}, TermsOfServiceAgreed: true, PrivateKey: key,
	})
	if err != nil {
		return acme.Account{}, fmt.Errorf("register an account: %w", err)
	}
	if account.Location == stored.Location {
		return account, nil
	}
	stored.Location = account.Location
	if err := saveJSON(ctx, s.config.Storage, accountKey, stored); err != nil {
		return acme.Account{}, fmt.Errorf("store %s: %w", accountKey, err)
	}
	terms := ""
	if directory, err := s.client.GetDirectory(ctx); err == nil && directory.Meta != nil { // the client has it
		terms = directory.Meta.TermsOfService
	}
	s.log.Info("ACME account registered; the terms of service are agreed to", "directory", s.config.Directory,
		"terms", terms)
	return account, nil
}

// storedAccount returns the stored account and its key, or a new key if no account with the e-mail address is stored.
func (s *Source) storedAccount(ctx context.Context) (stored storedAccount, key *ecdsa.PrivateKey, err error) {
	text, err := s.config.Storage.Load(ctx, accountKey)
	if err != nil {
		return stored, nil, fmt.Errorf("load %s: %w", accountKey, err)
	}
	if text != nil {
		if err = json.Unmarshal(text, &stored); err == nil {
			key, err = x509.ParseECPrivateKey(stored.Key)
		}
		if err != nil {
			s.log.Warn("the stored ACME account is not usable; registering another one", "error", err)
		} else if stored.Email == s.config.Email {
			return stored, key, nil
		}
	}
	stored = storedAccount{Email: s.config.Email}
	key, stored.Key, err = newKey()
	return stored, key, err
}
