package main

import (
	"net"
)

// tlsSettings are the settings of TLS.
type tlsSettings struct {
	cert, key, clientCA text
	insecureListen      toggle
}

func (t *tlsSettings) rows() []setting {
	return []setting{
		{
			"tls-cert", &t.cert, "", "1.0.0", "PEM `file` with the certificate of the listeners and its chain",
			"Requires `--tls-key`. The server reads both files every 5 s: new connections receive a new pair, open ones " +
				"continue. It keeps the previous pair if the new one is not usable. See [TLS](configuration.md#tls).",
		},
		{
			"tls-key", &t.key, "", "1.0.0", "PEM `file` with the private key of the certificate",
			"Keep it readable for the user of the server only; the log has a warning otherwise.",
		},
		{
			"client-ca", &t.clientCA, "", "1.0.0", "PEM `file` with the issuers of client certificates",
			"Every connection to the public listener then requires a client certificate of one of these authorities, besides " +
				"the token. Requires TLS. The server reads the file every 5 s.",
		},
		{
			"insecure-listen", &t.insecureListen, "", "1.0.0", "allow addresses without TLS that are not loopback addresses",
			"Only for a proxy, a mesh or a private network that protects the connections: a bearer token over plain HTTP is " +
				"readable on the way (RFC 6750 section 5.3).",
		},
	}
}

// check returns a usage error for settings that contradict each other.
func (t *tlsSettings) check(s *settings) error {
	switch {
	case t.cert != "" && t.key == "":
		return s.fault("tls-cert", "the private key is missing; set --tls-key")
	case t.key != "" && t.cert == "":
		return s.fault("tls-key", "the certificate is missing; set --tls-cert")
	case t.clientCA != "" && t.cert == "" && !s.acme.enabled():
		return s.fault("client-ca", "client certificates require TLS; set --tls-cert and --tls-key, or --acme-domain")
	}
	return nil
}

// checkExposed returns a usage error for a listener without TLS whose address is not a loopback address. setting is the
// name of the setting of the address.
func (t *tlsSettings) checkExposed(s *settings, setting string, address net.Addr) error {
	if bool(t.insecureListen) || address.(*net.TCPAddr).IP.IsLoopback() {
		return nil
	}
	return s.fault(setting, "the address %s is not a loopback address, and the listener has no TLS; set --tls-cert and "+
		"--tls-key, --acme-domain, or --insecure-listen if a proxy or a private network protects the connections",
		s.writtenAddress(setting, address))
}
