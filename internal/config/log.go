package config

import (
	"log/slog"

	"plantstore/internal/server"
)

// LowestLevel returns the level of --log-level.
func (s *Settings) LowestLevel() (lowest slog.Level) {
	if s.LogLevel == "access" {
		return server.LevelAccess
	}
	_ = lowest.UnmarshalText([]byte(s.LogLevel)) // slog knows the other words
	return lowest
}
