package config

import "net"

// Admin are the settings of the credentials on the admin listener, and of the first tokens.
type Admin struct {
	Open        bool
	PrintTokens bool
}

// CheckAdminOpen returns a usage error if requests to an admin listener beyond loopback would require no credential.
func (s *Settings) CheckAdminOpen(listener net.Addr) error {
	if address := listener.(*net.TCPAddr); s.Admin.Open && !address.IP.IsLoopback() {
		return s.Fault("admin-open", "the admin listener must be on loopback; got %s; "+
			"use another address with --admin-listen, or remove the setting and create tokens with --scope admin,metrics",
			s.writtenAddress("admin-listen", listener))
	}
	return nil
}
