package config

import (
	"net"
)

// TLS are the settings of certificates in files, and of addresses without TLS.
type TLS struct {
	Cert, Key, ClientCA Text
	InsecureListen      Toggle
}

func (t *TLS) rows() []Setting {
	return []Setting{
		{
			"tls-cert", &t.Cert, "", "PEM `file` with the certificate of the listeners and its chain",
			"Requires `--tls-key`. The server reads both files every 5 s: new connections receive a new pair, open ones " +
				"continue. It keeps the previous pair if the new one is not usable. See [TLS](configuration.md#tls).",
		},
		{
			"tls-key", &t.Key, "", "PEM `file` with the private key of the certificate",
			"Keep it readable for the user of the server only; the log has a warning otherwise.",
		},
		{
			"client-ca", &t.ClientCA, "", "PEM `file` with the issuers of client certificates",
			"Every connection to the public listener then requires a client certificate of one of these authorities, besides " +
				"the token. Requires TLS. The server reads the file every 5 s.",
		},
		{
			"insecure-listen", &t.InsecureListen, "", "allow addresses without TLS that are not loopback addresses",
			"Only for a proxy, a mesh or a private network that protects the connections: a bearer token over plain HTTP is " +
				"readable on the way (RFC 6750 section 5.3).",
		},
	}
}

// check returns a usage error for settings that contradict each other.
func (t *TLS) check(s *Settings) error {
	switch {
	case t.Cert != "" && t.Key == "":
		return s.Fault("tls-cert", "the private key is missing; set --tls-key")
	case t.Key != "" && t.Cert == "":
		return s.Fault("tls-key", "the certificate is missing; set --tls-cert")
	case t.ClientCA != "" && t.Cert == "" && !s.ACME.Enabled():
		return s.Fault("client-ca", "client certificates require TLS; set --tls-cert and --tls-key, or --acme-domain")
	}
	return nil
}

// CheckExposed returns a usage error for a listener without TLS whose address is not a loopback address. setting is the
// name of the setting of the address.
func (t *TLS) CheckExposed(s *Settings, setting string, address net.Addr) error {
	if bool(t.InsecureListen) || address.(*net.TCPAddr).IP.IsLoopback() {
		return nil
	}
	return s.Fault(setting, "the address %s is not a loopback address, and the listener has no TLS; set --tls-cert and "+
		"--tls-key, --acme-domain, or --insecure-listen if a proxy or a private network protects the connections",
		s.writtenAddress(setting, address))
}
