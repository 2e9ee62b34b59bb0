package config

import "strings"

// CheckStore returns an error if the settings alone show that the store cannot be opened.
func (s *Settings) CheckStore() error {
	if !s.DB.IsDatabase() {
		if s.RequireSyncStandby {
			return s.Fault("require-sync-standby", "a store in a file has no standby")
		}
		return nil
	}
	if err := s.RefusePassword(); err != nil {
		return err
	}
	if err := s.DB.URL.Check(); err != nil {
		return Usagef("%s: %w", s.Sources["db"], err)
	}
	return nil
}

// RefusePassword returns an error if the command line has a password, because every user of the machine can read it.
func (s *Settings) RefusePassword() error {
	flag, ok := strings.CutPrefix(s.Sources["db"], "--")
	if !ok || !s.DB.URL.HasPassword() {
		return nil
	}
	orEnviron := ""
	if flag == "db" {
		orEnviron = ", or put the whole URL into PLANTSTORE_DB"
	}
	return Usagef("%s: every user of this machine can read a password on a command line; "+
		"put it into PGPASSWORD or the file that PGPASSFILE names%s", flag, orEnviron)
}
