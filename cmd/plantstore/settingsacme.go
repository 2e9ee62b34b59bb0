package main

import (
	"crypto/x509"

	"plantstore/internal/acme"
)

// acmeSettings are the settings of certificates by ACME.
type acmeSettings struct {
	domains    list
	email      text
	directory  text
	ca         text
	httpListen optionalAddress // empty: tls-alpn-01 instead of http-01
}

// optionalAddress is an address. The zero value is no address.
type optionalAddress struct{ address }

// Set implements pflag.Value.
func (a *optionalAddress) Set(text string) error {
	if text == "" {
		a.address = ""
		return nil
	}
	return a.address.Set(text)
}

// rows returns the rows of the table of settings.
func (a *acmeSettings) rows() []setting {
	return []setting{
		{
			"acme-domain", a.domains.of(acme.CheckDomain), "", "1.0.0",
			"`domains` for which the server obtains certificates by ACME",
			"The listeners then have TLS, each domain with a certificate of its own. A client that sends no name receives the " +
				"certificate of the first domain, and one that sends another name is refused. Requires `--acme-email`. " +
				"See [certificates by ACME](acme.md).",
		},
		{
			"acme-email", &a.email, "", "1.0.0", "`address` for messages of the CA; agrees to its terms of service",
			"Setting it is your agreement to the terms of service of the CA in `--acme-directory`. The log has the address of " +
				"the terms.",
		},
		{
			"acme-directory", &a.directory, acme.LetsEncrypt, "1.0.0", "`URL` of the ACME directory of the CA",
			"After a change, the server orders new certificates at once.",
		},
		{
			"acme-ca", &a.ca, "", "1.0.0", "PEM `file` that verifies the TLS certificate of the ACME directory",
			"For a private CA. Empty: the certificates of the system.",
		},
		{
			"acme-http-listen", &a.httpListen, "", "1.0.0", "`address` of a listener for the challenge http-01",
			"The CA sends the challenge to port 80 of the domain. The listener answers only challenges. Empty: the challenge " +
				"is tls-alpn-01, which the CA sends to port 443 and the public listener answers.",
		},
	}
}

// enabled reports whether the certificates are those of ACME.
func (a *acmeSettings) enabled() bool { return len(a.domains.items) > 0 }

// check returns a usage error for settings that contradict each other.
func (a *acmeSettings) check(s *settings) error {
	const domainsMax = 100
	for name, isSet := range map[string]bool{
		"acme-email": a.email != "", "acme-ca": a.ca != "", "acme-http-listen": a.httpListen.address != "",
		"acme-directory": a.directory != "" && a.directory != acme.LetsEncrypt,
	} {
		if isSet && !a.enabled() {
			return s.fault(name, "there is no domain; set --acme-domain")
		}
	}
	switch {
	case !a.enabled():
		return nil
	case len(a.domains.items) > domainsMax:
		return s.fault("acme-domain", "%d domains; use at most %d", len(a.domains.items), domainsMax)
	case s.tls.cert != "":
		return s.fault("acme-domain", "--tls-cert sets the certificate; omit one of them")
	case a.email == "":
		return s.fault("acme-domain", "the e-mail address is missing; set --acme-email, which agrees to the CA's terms")
	}
	if err := acme.CheckEmail(string(a.email)); err != nil {
		return s.fault("acme-email", "%w", err)
	}
	if err := acme.CheckDirectory(string(a.directory)); err != nil {
		return s.fault("acme-directory", "%w", err)
	}
	return nil
}

// roots returns the certificates of --acme-ca, nil without it.
func (a *acmeSettings) roots(s *settings) (*x509.CertPool, error) {
	if a.ca == "" {
		return nil, nil //nolint:nilnil // the certificates of the system
	}
	text, err := readRegular(string(a.ca))
	if err != nil {
		return nil, s.fault("acme-ca", "%w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, s.fault("acme-ca", "%s has no certificate in PEM form", a.ca)
	}
	return roots, nil
}
