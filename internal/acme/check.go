package acme

import (
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
)

// label matches a part of a domain name (RFC 1123 section 2.1), in lower case.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// CheckDomain returns an error unless the text is a domain name that a CA can check with tls-alpn-01.
func CheckDomain(name string) error {
	const bytesMax = 200 // the name of a file contains it
	if _, err := netip.ParseAddr(name); err == nil || len(name) > bytesMax || !label.MatchString(name) {
		return fmt.Errorf("%.210q is not a domain name in lower case, such as plants.example; "+
			"wildcards and IP addresses are not supported; write other scripts in their xn-- form", name)
	}
	return nil
}

// CheckEmail returns an error unless the text is a plain e-mail address.
func CheckEmail(text string) error {
	address, err := mail.ParseAddress(text)
	if err != nil || address.Address != text || len(text) > 254 {
		return fmt.Errorf("%.260q is not an e-mail address, such as operator@plants.example", text)
	}
	return nil
}

// CheckDirectory returns an error unless the text is an https URL (RFC 8555 section 6.1).
func CheckDirectory(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%.260q is not the https URL of an ACME directory, such as %s", text, LetsEncrypt)
	}
	return nil
}

// LetsEncrypt is the directory of Let's Encrypt.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"
