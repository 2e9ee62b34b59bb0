package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

const accountKey = "account.json"

// storedAccount is the stored form of the account.
type storedAccount struct {
	Directory string `json:"directory"`
	Email     string `json:"email"`
	Location  string `json:"location"` // the URL that identifies the account
	Key       string `json:"key"`      // PEM
}

// order orders a certificate and installs it. Its caller has the lock of the orders. again is true after a
// failure.
func (s *Source) order(ctx context.Context, d *domain, again bool) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, s.times.order)
	defer cancel()
	account, err := s.account(ctx)
	if err != nil {
		return nil, err
	}
	var replaced *x509.Certificate
	if previous := d.certificate.Load(); previous != nil && !d.foreign && !again { // the CA may not know it any more
		replaced = previous.Leaf
	}
	certificate, text, err := s.orderFor(ctx, d.name, account, replaced)
	var problem acme.Problem
	if errors.As(err, &problem) && problem.Type == acme.ProblemTypeAccountDoesNotExist {
		// The CA has lost the account, as test CAs do when they restart.
		if account, err = s.register(ctx); err != nil {
			return nil, err
		}
		certificate, text, err = s.orderFor(ctx, d.name, account, nil)
	}
	if err != nil {
		return nil, err
	}
	d.install(certificate) // also if the storage fails: the CA limits the certificates of a name
	d.unsaved = text
	return certificate, nil
}

// orderFor returns a new certificate and its text for the storage. The CA exempts the renewal of a certificate from its
// rate limits (RFC 9773 section 5).
func (s *Source) orderFor(
	ctx context.Context, name string, account acme.Account, replaced *x509.Certificate,
) (*tls.Certificate, []byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	csr, err := acmez.NewCSR(key, []string{name})
	if err != nil {
		return nil, nil, err
	}
	parameters, err := acmez.OrderParametersFromCSR(account, csr)
	if err != nil {
		return nil, nil, err
	}
	parameters.Replaces = replaced
	kind := acme.ChallengeTypeTLSALPN01
	if s.config.HTTP01 {
		kind = acme.ChallengeTypeHTTP01
	}
	client := acmez.Client{Client: s.client, ChallengeSolvers: map[string]acmez.Solver{kind: &s.challenges}}
	chains, err := client.ObtainCertificate(ctx, parameters)
	if err != nil {
		return nil, nil, err
	}
	if len(chains) == 0 {
		return nil, nil, errors.New("the CA returned no certificate")
	}
	keyText, err := encodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	text := bytes.Join([][]byte{issuedBy(s.config.Directory), keyText, chains[0].ChainPEM}, nil)
	certificate, err := accept(text, name)
	return certificate, text, err
}

// account returns the stored account, or registers one.
func (s *Source) account(ctx context.Context) (acme.Account, error) {
	text, err := s.config.Storage.Load(ctx, accountKey)
	if errors.Is(err, fs.ErrNotExist) {
		return s.register(ctx)
	}
	if err != nil {
		return acme.Account{}, fmt.Errorf("load %s: %w", accountKey, err)
	}
	var stored storedAccount
	err = json.Unmarshal(text, &stored)
	if err == nil && (stored.Directory != s.config.Directory || stored.Email != s.config.Email) {
		return s.register(ctx)
	}
	key, keyErr := decodeKey([]byte(stored.Key))
	if err := errors.Join(err, keyErr); err != nil {
		s.log.Warn("the stored ACME account is not usable; registering another one", "error", err)
		return s.register(ctx)
	}
	return acme.Account{Status: acme.StatusValid, Location: stored.Location, PrivateKey: key}, nil
}

// register creates an account at the CA and stores it. The operator agreed to the terms of service when setting the
// e-mail address.
func (s *Source) register(ctx context.Context) (acme.Account, error) {
	key, err := newKey()
	if err != nil {
		return acme.Account{}, err
	}
	directory, err := s.client.GetDirectory(ctx)
	if err != nil {
		return acme.Account{}, err
	}
	terms := ""
	if directory.Meta != nil {
		terms = directory.Meta.TermsOfService
	}
	account, err := s.client.NewAccount(ctx, acme.Account{
		Contact: []string{"mailto:" + s.config.Email}, TermsOfServiceAgreed: true, PrivateKey: key,
	})
	if err != nil {
		return acme.Account{}, fmt.Errorf("register an account: %w", err)
	}
	keyText, err := encodeKey(key)
	if err != nil {
		return acme.Account{}, err
	}
	text, err := json.Marshal(storedAccount{
		Directory: s.config.Directory, Email: s.config.Email, Location: account.Location, Key: string(keyText),
	})
	if err != nil {
		return acme.Account{}, err
	}
	if err := s.config.Storage.Save(ctx, accountKey, text); err != nil {
		return acme.Account{}, fmt.Errorf("store %s: %w", accountKey, err)
	}
	s.log.Info("ACME account registered; the terms of service are agreed to", "directory", s.config.Directory,
		"terms", terms)
	return account, nil
}
