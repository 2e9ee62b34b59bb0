package config

// ACME are the settings of certificates by ACME.
type ACME struct {
	Domains   []string
	Email     string
	Directory string
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
