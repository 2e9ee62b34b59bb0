package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/store"
)

// openMissing restores a store that does not exist, or refuses to create it, if the destination has backups of it: an
// empty store would refuse every token of the lost one, and its backups would replace those that are needed now. If the
// destination does not respond, nothing shows that the store is new.
func (v *instance) openMissing(ctx context.Context) error {
	s := v.Settings
	if s.Backup.Destination == "" || v.caughtUp != "" { // the standby has the store
		return nil
	}
	info, err := os.Stat(s.DB.Path)
	if err == nil && info.Size() > 0 {
		if v.checking {
			return v.checkOwner(ctx)
		}
		return v.catchUp(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the engine reports this error
		return nil
	}
	empty := err == nil // as a start leaves it that was killed

	// With a mark, the WAL beside it may be whole.
	if err := dbfile.RefuseNew(dbfile.RealPath(s.DB.Path)); err != nil {
		return err
	}
	bucket := s3.FromEnvironment(v.Env.Vars)
	switch found, err := backup.HasBackup(ctx, s.Backup.Destination, bucket, s.DB.Path); {
	case err != nil:
		return fmt.Errorf("%s does not exist, and nothing shows whether it has backups: %w", s.DB.Path, err)
	case !found:
		return nil
	case !s.Backup.RestoreMissing:
		return s.Fault("backup-dir", "there is no store %s, and %s has backups of it; run plantstore restore %s --db %s, "+
			"or let serve do it with --restore-missing; for a new store use another name or backup-dir",
			s.DB.Path, s.Backup.Destination, s.Backup.Destination, s.DB.Path)
	case v.checking:
		v.log.Info("plantstore serve restores the store from its backups", "destination", s.Backup.Destination)
		return nil
	}
	v.log.Info("there is no store; restoring it from its backups", "db", s.DB.Path, "destination", s.Backup.Destination)
	notOpen := fmt.Errorf("%w: restoring it from %s", store.ErrNotOpen, s.Backup.Destination)
	if err := v.answerEarly(ctx, func() error { return notOpen }); err != nil {
		return err
	}
	archive, err := backup.OpenArchive(ctx, s.Backup.Destination, bucket, s.DB.Path)
	if err != nil {
		return err
	}
	r, err := archive.Restore(ctx, s.DB.Path, backup.Point{}, empty, nil)
	if err != nil {
		return err
	}
	for _, fault := range r.Faults {
		v.log.Warn("a damaged backup was left out of the restore", "error", fault)
	}
	v.log.Info("store restored", "plants", r.Plants, "commits", r.Commits, "at", r.At)
	v.setRestored(r)
	return v.catchUp(ctx)
}

// setRestored sets the details of the entry about a restore in the audit log.
func (v *instance) setRestored(r backup.Recovered) {
	v.restored = []audit.Detail{
		{Key: "file", Value: v.Settings.Backup.Destination},
		{Key: "plants", Value: strconv.FormatInt(r.Plants, 10)},
		{Key: "commits", Value: strconv.FormatInt(r.Commits, 10)},
	}
}

// catchUp restores what another server has stored since the restore of the store, if this one takes over from it.
func (v *instance) catchUp(ctx context.Context) (err error) {
	var r backup.Recovered
	if v.caughtUp, r, err = backup.CatchUp(ctx, v.backupConfig()); err != nil {
		return v.refused(err)
	}
	if r.Backup != "" {
		v.setRestored(r)
	}
	return nil
}
