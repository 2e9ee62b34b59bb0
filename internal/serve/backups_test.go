package serve

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/config"
)

// TestBackupsOfUnreadableStore shows that a store that cannot be read is no usage error, after which no service manager
// starts the server again.
func TestBackupsOfUnreadableStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &config.Settings{}
	s.DB.Path, s.Backup.Destination = filepath.Join(dir, "plants.db"), dir
	v := &instance{
		Config: Config{Settings: s, Env: config.NewEnvironment(nil)}, audit: &serverAudit{},
		log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(),
	}
	err := v.openBackups(t.Context())
	if _, usage := errors.AsType[*config.UsageError](err); err == nil || usage {
		t.Errorf("got %v, a usage error: %t; want another error", err, usage)
	}
}
