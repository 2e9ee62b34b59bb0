package config

import (
	"net"
)

// TLS are the settings of certificates in files, and of addresses without TLS.
type TLS struct {
	Cert, Key, ClientCA string
	InsecureListen      bool
}

// check returns a usage error for settings that contradict each other.
func (t *TLS) check(s *Settings) error {
	switch {
	case t.Cert != "" && t.Key == "":
		return s.Fault("tls-cert", "the private key is missing; set --tls-key")
	case t.Key != "" && t.Cert == "":
		return s.Fault("tls-key", "the certificate is missing; set --tls-cert")
	case t.ClientCA != "" && t.Cert == "" && !s.HasACME():
		return s.Fault("client-ca", "client certificates require TLS; set --tls-cert and --tls-key, or --acme-domain")
	}
	return nil
}

// CheckExposed returns a usage error for a listener without TLS whose address is not a loopback address. setting is the
// name of the setting of the address.
func (t *TLS) CheckExposed(s *Settings, setting string, address *net.TCPAddr) error {
	if t.InsecureListen || address.IP.IsLoopback() {
		return nil
	}
	return s.Fault(setting, "the address %s is not a loopback address, and the listener has no TLS; set --tls-cert and "+
		"--tls-key, --acme-domain, or --insecure-listen if a proxy or a private network protects the connections",
		s.writtenAddress(setting, address))
}
