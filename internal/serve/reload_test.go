package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"plantstore/internal/config"
)

// looker returns a server without parts, for looks at the settings file, and its log.
func looker(t *testing.T, file string) (*instance, *bytes.Buffer) {
	t.Helper()
	s, flags := &config.Settings{}, pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.BindServe(flags)
	env := config.NewEnvironment([]string{"PLANTSTORE_CONFIG=" + file})
	if err := s.Load(t.Context(), env, flags); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	v := &instance{Config: Config{Settings: s, Env: env}, log: slog.New(slog.NewTextHandler(&log, nil))}
	v.settingsFile.applied = s.FileSum
	return v, &log
}

// TestChangeDuringStart changes the settings file after the server has read it, and before it looks at it for the first
// time: an engine can take long to open.
func TestChangeDuringStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "1"), filepath.Join(dir, "plantstore.yaml") // a ConfigMap of Kubernetes has a link
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for next, want := range map[string]string{
		"log-level: info\n": "", "log-level: x\n": "log-level",
	} {
		write("log-level: info\n")
		r, log := looker(t, link)
		write(next)
		r.look(t.Context())
		if log.Len() > 0 {
			t.Errorf("%q: the first look loaded it:\n%s", next, log)
		}
		r.look(t.Context())
		if got := log.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: log: got %q, want %q in it", next, got, want)
		}
	}
}
