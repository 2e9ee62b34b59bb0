package backup

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"plantstore/internal/sqlite/dbfile"
)

// TestPromoteBetweenRoles promotes a server that has closed its store and is about to open it as a standby.
func TestPromoteBetweenRoles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		db := filepath.Join(t.TempDir(), "p.db")
		must(os.WriteFile(db, nil, 0o600))
		result := make(chan error, 1)
		go func() { result <- Promote(t.Context(), db, nil) }()
		synctest.Wait() // it has found no server
		serve, err := dbfile.LockServe(t.Context(), db)
		must(err)
		defer serve.Close()
		must(dbfile.Pause(t.Context(), promotePoll))
		synctest.Wait() // the server restores the store
		move, err := dbfile.LockMove(db, true)
		must(err)
		defer move.Close()
		for !dbfile.PromotionRequested(db) && len(result) == 0 {
			must(dbfile.Pause(t.Context(), promotePoll))
		}
		must(dbfile.WriteOrigin(db, dbfile.Origin{Holder: true}))
		must(<-result)
	})
}
