package config

import "strings"

// storeSettings are the settings of every command that opens a store.
func (s *Settings) storeSettings() []Setting {
	return []Setting{
		{
			"config", &s.Config, "", "YAML `file` with settings",
			"A mapping of keys to values. A list is a YAML list, or its items with commas between them. " +
				"Unknown keys and duplicate keys are errors.",
		},
		{
			"db", &s.DB, "plantstore.db", "the `store`: a file, or the URL of a PostgreSQL database",
			"See [address of a store](configuration.md#address-of-a-store). A password on the command line is an error, " +
				"because every user of the machine can read it: use `PLANTSTORE_DB`, `PGPASSWORD` or `PGPASSFILE`.",
		},
	}
}

// standbySettings are the settings of a server on PostgreSQL.
func (s *Settings) standbySettings() []Setting {
	return []Setting{
		{
			"require-sync-standby", &s.RequireSyncStandby, "", "require a synchronous standby of PostgreSQL",
			"The server starts, and acknowledges plants, only while the database waits for a synchronous standby. " +
				"It is an error with a store in a file.",
		},
	}
}

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
