package config

import (
	"errors"
	"slices"
	"testing"
)

// namesOf returns the names of all settings, in their order.
func namesOf(s *Settings) (names []string) {
	for _, row := range s.AllSettings() {
		names = append(names, row.Name)
	}
	return names
}

// FuzzSettingsFile parses any text as a settings file. A file that is accepted has known settings only, each a text for
// Value.Set.
func FuzzSettingsFile(f *testing.F) {
	f.Add([]byte("db: plants.db\nlisten: 127.0.0.1:0\ncors-origins: [https://a.example, 'https://b.example']\n"))
	f.Add([]byte("backup-keep: &a 1\nbody-max: *a\n"))
	f.Add([]byte("db: !!binary aGVsbG8=\n---\ndb: x\n"))
	f.Add([]byte("db: |\n  a\n  b\nlisten: ~\n{}"))
	f.Add([]byte("<<: {db: x}\n? [a, b]\n: c\n"))
	names := namesOf(&Settings{})
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := parseConfig("settings.yaml", text, names)
		if err != nil {
			if usage := (*UsageError)(nil); !errors.As(err, &usage) || err.Error() == "" {
				t.Errorf("parseConfig(%q): %v, want a usage error", text, err)
			}
			return
		}
		for name := range values {
			if !slices.Contains(names, name) || name == "config" {
				t.Errorf("parseConfig(%q) has %q, which is not a setting", text, name)
			}
		}
		for _, row := range (&Settings{}).AllSettings() {
			if value, ok := values[row.Name]; ok {
				_ = row.Value.Set(value) // any text may be refused
			}
		}
	})
}

// FuzzSettingValue sets a setting to any text. The text of an accepted value sets the same value again.
func FuzzSettingValue(f *testing.F) {
	for i, row := range (&Settings{}).AllSettings() {
		f.Add(i, row.Initial)
	}
	f.Add(1, "postgres://flora@db.example:5432/plants?sslmode=verify-full")
	f.Add(4, "[::1]:0")
	f.Add(9, "1e3KiB")
	f.Add(12, "9999999999d")
	f.Fuzz(func(t *testing.T, at int, text string) {
		rows, again := (&Settings{}).AllSettings(), (&Settings{}).AllSettings()
		at = int(uint(at) % uint(len(rows)))
		row := rows[at]
		if err := row.Value.Set(text); err != nil {
			return
		}
		first := row.Value.String()
		if err := again[at].Value.Set(first); err != nil {
			t.Errorf("%s: %q is accepted as %q, which is refused: %v", row.Name, text, first, err)
		} else if second := again[at].Value.String(); second != first {
			t.Errorf("%s: %q is %q, which is %q", row.Name, text, first, second)
		}
	})
}
