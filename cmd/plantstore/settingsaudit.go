package main

import "plantstore/internal/audit"

// auditSettings are the settings of the audit log of a server.
type auditSettings struct {
	keep duration
}

// rows returns the rows of the table of settings.
func (s *auditSettings) rows() []setting {
	return []setting{
		{
			"audit-keep", &s.keep, "400d", "1.0.0", "`time` to keep an entry of the audit log; 0: always",
			"The server removes older entries once a day, and the [audit log](audit.md) has an entry about that. " +
				"On PostgreSQL its role needs more [rights](../how-to/grant-postgresql-rights.md) for it.",
		},
	}
}

// auditDetails returns the settings in force and the sources of those that differ from the default, without secrets.
func (s *settings) auditDetails(p *program) (details []audit.Detail) {
	for _, row := range s.allSettings() {
		details = append(details, audit.Detail{Key: "setting." + row.name, Value: hideSecrets(row.value.String(), p.values)})
		if source := s.sources[row.name]; source != "default" {
			details = append(details, audit.Detail{Key: "source." + row.name, Value: source})
		}
	}
	return details
}
