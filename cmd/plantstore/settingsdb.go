package main

import "strings"

// checkStore returns an error if the settings alone show that the store cannot be opened.
func (s *settings) checkStore() error {
	if !s.db.isDatabase() {
		if s.requireSyncStandby {
			return s.fault("require-sync-standby", "a store in a file has no standby")
		}
		return nil
	}
	if err := s.refusePassword(); err != nil {
		return err
	}
	if err := s.db.url.Check(); err != nil {
		return usagef("%s: %w", s.sources["db"], err)
	}
	return nil
}

// refusePassword returns an error if the command line has a password, because every user of the machine can read it.
func (s *settings) refusePassword() error {
	flag, ok := strings.CutPrefix(s.sources["db"], "--")
	if !ok || !s.db.url.HasPassword() {
		return nil
	}
	orEnviron := ""
	if flag == "db" {
		orEnviron = ", or put the whole URL into PLANTSTORE_DB"
	}
	return usagef("%s: every user of this machine can read a password on a command line; "+
		"put it into PGPASSWORD or the file that PGPASSFILE names%s", flag, orEnviron)
}
