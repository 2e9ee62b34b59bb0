package serve

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/config"
)

// TestAuditDetailsHideSecrets shows that the entry of a start has no secret of a setting.
func TestAuditDetailsHideSecrets(t *testing.T) {
	t.Parallel()
	const canary = "canary-5f2c"
	token := "pst_" + canary
	env := config.NewEnvironment([]string{"PLANTSTORE_DB=postgres://flora@db.example/plants", "PGPASSWORD=" + canary})
	s, cmd := &config.Settings{}, &cobra.Command{}
	s.BindServe(cmd.Flags())
	if err := cmd.ParseFlags([]string{"--base-url", "https://plants.example/" + token}); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context(), env, cmd.Flags()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range auditDetails(s, env) {
		got[d.Key] = d.Value
		if strings.Contains(d.Value, canary) {
			t.Errorf("%s has a secret: %s", d.Key, d.Value)
		}
	}
	for key, want := range map[string]string{
		"source.db": "PLANTSTORE_DB", "source.base-url": "--base-url", "setting.audit-keep": "400d", "source.audit-keep": "",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
	if !strings.Contains(got["setting.db"], "db.example") || got["setting.base-url"] == "" {
		t.Errorf("setting.db %q, setting.base-url %q", got["setting.db"], got["setting.base-url"])
	}
	sealed, err := audit.Seal(audit.Link{}, audit.Event{Action: "x", Details: auditDetails(s, env)}).Entry()
	if err != nil || len(sealed.Details) != len(auditDetails(s, env)) {
		t.Errorf("%d details of %d fit an entry, %v", len(sealed.Details), len(auditDetails(s, env)), err)
	}
}
