package config

import "net"

// Admin are the settings of the credentials on the admin listener, and of the first tokens.
type Admin struct {
	Open        Toggle
	PrintTokens Toggle
}

func (s *Admin) rows() []Setting {
	return []Setting{
		{
			"admin-open", &s.Open, "",
			"require no credential for reads on the admin listener, which must be on loopback",
			"Every user and every program of this machine can then read the plants, the metrics, the profiles and the " +
				"audit log. Changes and downloads still require a credential. It is an error with an " +
				"address that is not a loopback address. See [admin listener](admin-listener.md).",
		},
		{
			"print-tokens", &s.PrintTokens, "",
			"print the first tokens of a store even if standard output is not a terminal",
			"Without it, `serve` creates the first tokens only if standard output is a terminal, so that the log of a service " +
				"has no secret. See [first tokens](tokens.md#first-tokens).",
		},
	}
}

// CheckAdminOpen returns a usage error if requests to an admin listener beyond loopback would require no credential.
func (s *Settings) CheckAdminOpen(listener net.Addr) error {
	if address := listener.(*net.TCPAddr); bool(s.Admin.Open) && !address.IP.IsLoopback() {
		return s.Fault("admin-open", "the admin listener must be on loopback; got %s; "+
			"use another address with --admin-listen, or remove the setting and create tokens with --scope admin,metrics",
			s.writtenAddress("admin-listen", listener))
	}
	return nil
}
