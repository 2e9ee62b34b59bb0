package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"plantstore/internal/config"
)

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
			code := run(context.Background(), args, config.NewEnvironment(environ), strings.NewReader(""), &stdout, &stderr)
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
