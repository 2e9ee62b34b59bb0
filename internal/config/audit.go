package config

// Audit are the settings of the audit log of a server.
type Audit struct {
	Keep Duration
}

// rows returns the rows of the table of settings.
func (s *Audit) rows() []Setting {
	return []Setting{
		{
			"audit-keep", &s.Keep, "400d", "`time` to keep an entry of the audit log; 0: always",
			"The server removes older entries once a day, and the [audit log](audit.md) has an entry about that. " +
				"On PostgreSQL its role needs more [rights](../how-to/grant-postgresql-rights.md) for it.",
		},
	}
}
