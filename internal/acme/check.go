package acme

import (
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// label matches a part of a domain name (RFC 1123 section 2.1), in lower case.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// CheckDomain returns an error unless the text is a domain name or an IP address that a CA can check with tls-alpn-01.
func CheckDomain(name string) error {
	const bytesMax = 200 // the name of a file contains it
	address, err := netip.ParseAddr(name)
	number := strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "0123456789") == "" // not a top-level domain
	switch {
	case err != nil && number && name != "",
		err == nil && (address.Zone() != "" || address.Is4In6() || address.String() != name):
		return fmt.Errorf("%.50q is not an IP address in its shortest form, such as 203.0.113.7 or 2001:db8::1", name)
	case err != nil && (len(name) > bytesMax || !label.MatchString(name)):
		return fmt.Errorf("%.210q is not a domain name in lower case, such as plants.example; "+
			"wildcards are not supported; write other scripts in their xn-- form", name)
	}
	return nil
}

// reverseName returns the domain name of an IP address by which a CA asks for its challenge (RFC 8738 section 6; RFC
// 1034 section 5.2.1, RFC 3596 section 2.5).
func reverseName(address netip.Addr) string {
	name := ""
	for _, b := range address.AsSlice() {
		if address.Is4() {
			name = fmt.Sprintf("%d.%s", b, name)
		} else {
			name = fmt.Sprintf("%x.%x.%s", b&15, b>>4, name)
		}
	}
	if address.Is4() {
		return name + "in-addr.arpa"
	}
	return name + "ip6.arpa"
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
