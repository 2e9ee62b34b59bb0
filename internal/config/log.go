package config

import (
	"log/slog"

	"plantstore/internal/server"
)

// logSettings are the settings of the log of a server.
func (s *Settings) logSettings() []Setting {
	return []Setting{
		{"log-format", s.LogFormat.among("text", "json"), "text", "`form` of the log", ""},
		{
			"log-level", s.LogLevel.among(logLevelWords()...), "access", "lowest `level` of the log lines",
			"`info` omits the lines of successful requests. See [log lines](logs.md).",
		},
	}
}

// logLevels are the values of --log-level, the most verbose first.
var logLevels = []struct {
	word  string
	level slog.Level
}{
	{"debug", slog.LevelDebug},
	{"access", server.LevelAccess},
	{"info", slog.LevelInfo},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
}

func logLevelWords() (words []string) {
	for _, l := range logLevels {
		words = append(words, l.word)
	}
	return words
}

// LowestLevel returns the level of --log-level.
func (s *Settings) LowestLevel() (lowest slog.Level) {
	for _, l := range logLevels {
		if l.word == s.LogLevel.Value {
			lowest = l.level
		}
	}
	return lowest
}
