package config

import "crypto/x509"

// ACME are the settings of certificates by ACME.
type ACME struct {
	Domains    []string
	Email      string
	Directory  string
	CA         string
	HTTPListen string // empty: tls-alpn-01 instead of http-01

	Roots *x509.CertPool // of CA; nil: the system's; set by readRoots
}

// Enabled reports whether the server obtains its certificates by ACME.
func (a *ACME) Enabled() bool { return len(a.Domains) > 0 }

// check returns a usage error for settings that contradict each other.
func (a *ACME) check(s *Settings) error {
	const domainsMax = 100
	if !a.Enabled() {
		return s.refuseUnused("there is no domain; set --acme-domain", "acme-")
	}
	switch {
	case len(a.Domains) > domainsMax:
		return s.Fault("acme-domain", "%d domains; use at most %d", len(a.Domains), domainsMax)
	case s.TLS.Cert != "":
		return s.Fault("acme-domain", "--tls-cert sets the certificate; omit one of them")
	case a.Email == "":
		return s.Fault("acme-domain", "the e-mail address is missing; set --acme-email, which agrees to the CA's terms")
	case a.Directory == "":
		return s.Fault("acme-directory", "the URL of the CA is missing; set it, or omit the setting for Let's Encrypt")
	}
	return nil
}

// readRoots reads the certificates of --acme-ca, if it is set.
func (a *ACME) readRoots(s *Settings) error {
	if a.CA == "" {
		return nil
	}
	text, err := ReadRegular(a.CA)
	if err != nil {
		return s.Fault("acme-ca", "%w", err)
	}
	a.Roots = x509.NewCertPool()
	if !a.Roots.AppendCertsFromPEM(text) {
		return s.Fault("acme-ca", "%s has no certificate in PEM form", a.CA)
	}
	return nil
}
