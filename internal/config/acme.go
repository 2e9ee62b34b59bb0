package config

// HasACME reports whether the server obtains its certificates by ACME.
func (s *Settings) HasACME() bool { return len(s.ACME.Domains) > 0 }

// checkACME returns a usage error for settings that contradict each other.
func (s *Settings) checkACME() error {
	const domainsMax = 100
	if !s.HasACME() {
		return nil
	}
	switch a := &s.ACME; {
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
