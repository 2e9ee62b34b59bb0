package serve

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// TestAuditDetailsHideSecrets shows that the entry of a start has no secret of a setting.
func TestAuditDetailsHideSecrets(t *testing.T) {
	t.Parallel()
	const canary = "canary-5f2c"
	token := "pst_" + canary
	env := config.NewEnvironment([]string{
		"PLANTSTORE_DB=postgres://flora:" + canary + "@db.example/plants?password=" + canary,
	})
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

// TestPruneDamagedAudit shows that a prune removes no entry of a log that lacks one.
func TestPruneDamagedAudit(t *testing.T) {
	t.Parallel()
	rows := make([]audit.Row, 3)
	last := audit.Link{}
	for i := range rows {
		rows[i] = audit.Seal(last, audit.Event{Action: "x"})
		last = rows[i].Link()
	}
	before := time.Now()
	if n, err := olderRows(audit.Link{}, rows, before); n != 3 || err != nil {
		t.Errorf("a whole log: %d, %v", n, err)
	}
	rows[1] = rows[2]
	if n, err := olderRows(audit.Link{}, rows[:2], before); n != 0 || !errors.Is(err, store.ErrAuditFault) {
		t.Errorf("a log without entry 2: %d, %v", n, err)
	}
}

// TestPruneAudit prunes a log of several batches up to the first entry that is young enough.
func TestPruneAudit(t *testing.T) {
	t.Parallel()
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "a.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	now := time.Now()
	var events []audit.Event
	for i := range 2600 {
		age := time.Hour
		if i >= 2500 && i != 2550 { // one is old, but follows a young one
			age = time.Minute
		}
		events = append(events, audit.Event{Time: now.Add(-age), Action: "x"})
	}
	if err := engine.AppendAudit(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{2500, 0} {
		removed, err := PruneAudit(t.Context(), engine, now.Add(-30*time.Minute), audit.Origin{})
		if err != nil || removed != want {
			t.Errorf("removed %d, %v; want %d", removed, err, want)
		}
	}
	ends, err := store.VerifyAudit(t.Context(), engine, audit.Link{})
	if err != nil || ends.Anchor.Sequence != 2500 || ends.Head.Sequence != 2603 { // three batches have an entry each
		t.Errorf("ends %+v, %v", ends, err)
	}
}
