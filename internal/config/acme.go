package config

import (
	"crypto/x509"

	"plantstore/internal/acme"
)

// ACME are the settings of certificates by ACME.
type ACME struct {
	Domains    List
	Email      Text
	Directory  Text
	CA         Text
	HTTPListen OptionalAddress // empty: tls-alpn-01 instead of http-01
}

// OptionalAddress is an address. The zero value is no address.
type OptionalAddress struct{ Address }

// Set implements pflag.Value.
func (a *OptionalAddress) Set(text string) error {
	if text == "" {
		a.Address = ""
		return nil
	}
	return a.Address.Set(text)
}

// rows returns the rows of the table of settings.
func (a *ACME) rows() []Setting {
	return []Setting{
		{
			"acme-domain", a.Domains.of(acme.CheckDomain), "",
			"`domains` for which the server obtains certificates by ACME",
			"The listeners then use TLS, with one certificate for each domain. A client that sends no name receives the " +
				"certificate of the first domain, and one that sends another name is refused. Requires `--acme-email`. " +
				"See [certificates by ACME](acme.md).",
		},
		{
			"acme-email", &a.Email, "", "`address` for messages of the CA; agrees to its terms of service",
			"Setting it is your agreement to the terms of service of the CA in `--acme-directory`. The log has the address of " +
				"the terms.",
		},
		{
			"acme-directory", &a.Directory, acme.LetsEncrypt, "`URL` of the ACME directory of the CA",
			"After a change, the server orders new certificates at once.",
		},
		{
			"acme-ca", &a.CA, "", "PEM `file` that verifies the TLS certificate of the ACME directory",
			"For a private CA. Empty: the certificates of the system.",
		},
		{
			"acme-http-listen", &a.HTTPListen, "", "`address` of a listener for the challenge http-01",
			"The CA sends the challenge to port 80 of the domain. The listener answers only challenges. Empty: the challenge " +
				"is tls-alpn-01, which the CA sends to port 443 and the public listener answers.",
		},
	}
}

// Enabled reports whether the server obtains its certificates by ACME.
func (a *ACME) Enabled() bool { return len(a.Domains.Items) > 0 }

// check returns a usage error for settings that contradict each other.
func (a *ACME) check(s *Settings) error {
	const domainsMax = 100
	for name, isSet := range map[string]bool{
		"acme-email": a.Email != "", "acme-ca": a.CA != "", "acme-http-listen": a.HTTPListen.Address != "",
		"acme-directory": a.Directory != "" && a.Directory != acme.LetsEncrypt,
	} {
		if isSet && !a.Enabled() {
			return s.Fault(name, "there is no domain; set --acme-domain")
		}
	}
	switch {
	case !a.Enabled():
		return nil
	case len(a.Domains.Items) > domainsMax:
		return s.Fault("acme-domain", "%d domains; use at most %d", len(a.Domains.Items), domainsMax)
	case s.TLS.Cert != "":
		return s.Fault("acme-domain", "--tls-cert sets the certificate; omit one of them")
	case a.Email == "":
		return s.Fault("acme-domain", "the e-mail address is missing; set --acme-email, which agrees to the CA's terms")
	}
	if err := acme.CheckEmail(string(a.Email)); err != nil {
		return s.Fault("acme-email", "%w", err)
	}
	if err := acme.CheckDirectory(string(a.Directory)); err != nil {
		return s.Fault("acme-directory", "%w", err)
	}
	return nil
}

// Roots returns the certificates of --acme-ca, nil without it.
func (a *ACME) Roots(s *Settings) (*x509.CertPool, error) {
	if a.CA == "" {
		return nil, nil //nolint:nilnil // the certificates of the system
	}
	text, err := readRegular(string(a.CA))
	if err != nil {
		return nil, s.Fault("acme-ca", "%w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, s.Fault("acme-ca", "%s has no certificate in PEM form", a.CA)
	}
	return roots, nil
}
