package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

// namesOf returns the names of all settings, in their order.
func namesOf(s *settings) (names []string) {
	for _, row := range s.allSettings() {
		names = append(names, row.name)
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
	names := namesOf(&settings{})
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := parseConfig("settings.yaml", text, names)
		if err != nil {
			if code := exitCode(err); code != exitUsage || err.Error() == "" {
				t.Errorf("parseConfig(%q): %v with exit code %d, want %d", text, err, code, exitUsage)
			}
			return
		}
		for name := range values {
			if !slices.Contains(names, name) || name == "config" {
				t.Errorf("parseConfig(%q) has %q, which is not a setting", text, name)
			}
		}
		for _, row := range (&settings{}).allSettings() {
			if value, ok := values[row.name]; ok {
				_ = row.value.Set(value) // any text may be refused
			}
		}
	})
}

// FuzzSettingValue sets a setting to any text. The text of an accepted value sets the same value again.
func FuzzSettingValue(f *testing.F) {
	for i, row := range (&settings{}).allSettings() {
		f.Add(i, row.initial)
	}
	f.Add(1, "postgres://flora:secret@db.example:5432/plants?sslmode=verify-full")
	f.Add(4, "[::1]:0")
	f.Add(9, "1e3KiB")
	f.Add(12, "9999999999d")
	f.Fuzz(func(t *testing.T, at int, text string) {
		rows, again := (&settings{}).allSettings(), (&settings{}).allSettings()
		at = int(uint(at) % uint(len(rows)))
		row := rows[at]
		if err := row.value.Set(text); err != nil {
			return
		}
		first := row.value.String()
		if row.name == "db" && strings.Contains(first, "xxxxx") { // without the password
			return
		}
		if err := again[at].value.Set(first); err != nil {
			t.Errorf("%s: %q is accepted as %q, which is refused: %v", row.name, text, first, err)
		} else if second := again[at].value.String(); second != first {
			t.Errorf("%s: %q is %q, which is %q", row.name, text, first, second)
		}
	})
}

// FuzzSettingsSources runs the command config with any flag and any variable. It succeeds or reports a usage error, and
// its output is a settings file with the same output.
func FuzzSettingsSources(f *testing.F) {
	f.Add("--listen=127.0.0.1:0", "PLANTSTORE_DB", "plants.db")
	f.Add("--cors-origins=https://a.example,*", "PLANTSTORE_BACKUP_KEEP", "12")
	f.Add("--body-max=1MiB", "PLANTSTORE_LOG_LEVEL", "debug")
	f.Add("--request-timeout", "PLANTSTORE_NONE", "\x00\xff")
	f.Add("--pprof", "PLANTSTORE_BACKUP_DIR", "a: b # c\n- d")
	f.Fuzz(func(t *testing.T, flag, variable, value string) {
		if name, _, _ := strings.Cut(flag, "="); strings.HasPrefix("--config", name) || variable == "PLANTSTORE_CONFIG" {
			t.Skip("would read a file of this machine")
		}
		if strings.Contains(variable, "=") || !strings.HasPrefix(flag, "--") {
			t.Skip()
		}
		config := func(args, environ []string) (int, string, string) {
			var stdout, stderr bytes.Buffer
			args = append([]string{"config"}, args...)
			code := run(context.Background(), args, environ, strings.NewReader(""), &stdout, &stderr)
			return code, stdout.String(), stderr.String()
		}
		code, out, message := config([]string{flag}, []string{variable + "=" + value})
		if code != exitOK {
			if code != exitUsage || out != "" || !strings.HasPrefix(message, "plantstore: ") {
				t.Errorf("config %q with %q=%q: exit code %d, output %q, message %q",
					flag, variable, value, code, out, message)
			}
			return
		}
		if !strings.Contains(out, "listen: ") || strings.Contains(out, "xxxxx") { // the help; or a hidden password
			return
		}
		path := t.TempDir() + "/settings.yaml"
		if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		code, again, message := config([]string{"--config", path}, nil)
		if code != exitOK || withoutSources(again) != withoutSources(out) {
			t.Errorf("config %q with %q=%q printed\n%s\nwhich as a settings file is %d, %q\n%s",
				flag, variable, value, out, code, message, again)
		}
	})
}

// withoutSources removes the comments with the sources of the settings.
func withoutSources(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		value, _, _ := strings.Cut(line, " # ")
		kept.WriteString(strings.TrimRight(value, " \n") + "\n")
	}
	return kept.String()
}
