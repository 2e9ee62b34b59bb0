package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/config"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/terminal"
)

func newRestore(p *program) *cobra.Command {
	o := &backupOptions{}
	var point backup.Point
	cmd := &cobra.Command{
		Use:   "restore FILE|DESTINATION",
		Short: "Restore the store from a backup, or as it was at a time",
		Long: `Restore the store that --db names from a backup. The command first compares the
backup with its manifest FILE.json, and checks it as verify does. It then creates
the whole store, or changes nothing. It replaces a store only with --force, and
never a store with a running server.

From the DESTINATION of a server's backups (--backup-dir), the command restores the
newest commit, or with --at the store as it was at that time: every plant that was
acknowledged before it. It starts with a backup and repeats the commits after it.
The command names the commits of other servers that are not part of it, and
--timeline restores these.

If FILE is s3://BUCKET/NAME, the command downloads the backup with the keys that
backup uses. If FILE is -, it reads the backup from standard input, and the
manifest from the file that --manifest names; without a manifest it only checks
that the backup is complete and undamaged.`,
		Example: `  plantstore restore /mnt/backup/monday.db
  plantstore restore /mnt/backup/monday.db --db plantstore.db --force
  plantstore restore /mnt/backup --at 2026-11-28T09:30:00Z
  plantstore restore s3://nursery-backups/plants/monday.db
  zstdcat monday.db.zst | plantstore restore - --manifest monday.db.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, isTerminal := terminal.IsTerminal(p.Stdin)
			switch {
			case point != backup.Point{} && args[0] == terminal.StreamName:
				return errNoTimes
			case o.manifest != "" && args[0] != terminal.StreamName:
				return errManifestFlag
			case isTerminal && args[0] == terminal.StreamName:
				return config.Usagef("standard input is a terminal; pipe a backup into it or name a file")
			}
			return p.withSettings(cmd, func(ctx context.Context) error { return p.restore(ctx, args[0], point, o) })
		},
	}
	p.settings.BindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	p.bindBackup(cmd.Flags(), o, "compare the backup with the manifest in this `file`; only if FILE is -")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace an existing store")
	bindMoment(cmd.Flags(), "at", "restore the store as it was at this `time`", &point.At)
	cmd.Flags().Func("timeline", "restore the commits of this `timeline`", func(text string) error {
		point.Timeline = text
		return backup.CheckTimeline(text)
	})
	return cmd
}

// errNoTimes is the error of --at and --timeline for a single backup.
var errNoTimes = config.Usagef(
	"at, timeline: use them with the destination of a server's backups, which has other states too")

// restoreFacts is the output of restore --json.
type restoreFacts struct {
	DB       string `json:"db"`
	Compared bool   `json:"manifest_compared"`
	backupfile.Manifest
}

func (p *program) restore(ctx context.Context, from string, point backup.Point, o *backupOptions) error {
	db, err := p.settings.DB.File()
	if err != nil {
		return err
	}
	object, archive, err := p.source(ctx, from)
	switch {
	case err != nil:
		return err
	case archive:
		return p.restoreArchive(ctx, from, db, point, o)
	case point != backup.Point{}:
		return errNoTimes
	}
	progress := p.NewProgress(0)
	progress.Part(0, 1)
	name := from
	var m backupfile.Manifest
	switch {
	case object != nil:
		m, err = restoreObject(ctx, object, db, o, progress)
	case from == terminal.StreamName:
		name = "standard input"
		m, err = p.restoreStream(ctx, db, o, progress)
	default:
		m, err = backupfile.Restore(ctx, from, db, o.force, progress.Part)
	}
	progress.End()
	if err != nil {
		return restoreFault(name, err)
	}
	p.auditClosed(ctx, audit.StoreRestore, backupDetails(from, m)...)
	facts := restoreFacts{db, !m.MadeAt.IsZero(), m}
	if !facts.Compared {
		return p.result(facts, "%s has %d plants, up to commit %d; not compared with a manifest\n",
			terminal.Printable(db), m.Plants, m.Commits)
	}
	return p.result(facts, "%s has the %d plants of %s\n",
		terminal.Printable(db), m.Plants, terminal.FormatTime(m.MadeAt))
}

// restoreFault describes an error of a restore from a name.
func restoreFault(name string, err error) error {
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return terminal.ErrInterrupted
	case errors.Is(err, backupfile.ErrExists):
		return fmt.Errorf("restore: %w; add --force to replace it", err)
	}
	return fmt.Errorf("restore %s: %w", name, err)
}

// source returns the backup in a bucket that an argument names, nil for a file, and whether it is the destination of
// backups: a directory, or an S3 address that is not the name of a backup.
func (p *program) source(ctx context.Context, argument string) (object *backup.Object, archive bool, err error) {
	if info, err := os.Stat(argument); err == nil && info.IsDir() {
		return nil, true, nil
	}
	if at, err := s3.ParseLocation(argument); err == nil && at.Key == "" {
		p.warnOfEndpoint()
		return nil, true, nil
	}
	if object, err = p.object(argument); object == nil {
		return nil, false, err
	}
	_, err = object.Manifest(ctx)
	return object, errors.Is(err, fs.ErrNotExist), nil // the restore reports any other error
}

// archiveFacts is the output of restore --json for the destination of backups.
type archiveFacts struct {
	DB string `json:"db"`
	backup.Recovered
}

// restoreArchive restores the store from the destination of backups as it was at a point.
func (p *program) restoreArchive(
	ctx context.Context, from, db string, point backup.Point, o *backupOptions,
) error {
	archive, err := backup.OpenArchive(ctx, from, s3.FromEnvironment(p.env.Vars), db)
	if err != nil {
		return restoreFault(from, err)
	}
	progress := p.NewProgress(0)
	progress.Part(0, 1)
	r, err := archive.Restore(ctx, db, point, o.force, progress.Part)
	progress.End()
	if err != nil {
		return restoreFault(from, err)
	}
	for _, fault := range r.Faults {
		fmt.Fprintf(p.Stderr, "warning: %s; restored from an older backup and the segments after it\n",
			terminal.Printable(fault))
	}
	for _, left := range r.LeftOut {
		fmt.Fprintf(p.Stderr, "note: %s\n", terminal.Printable(left))
	}
	p.auditClosed(ctx, audit.StoreRestore,
		fileDetail(from), countDetail("plants", r.Plants), countDetail("commits", r.Commits))
	if err := backup.RecordedRestore(context.WithoutCancel(ctx), db); err != nil {
		return restoreFault(from, err)
	}
	before, at := "before now", point.At
	if !at.IsZero() {
		before = "before " + terminal.FormatTime(at)
	} else {
		at = time.Now()
	}
	return p.result(archiveFacts{db, r}, "%s has %d plants, up to commit %d of %s, %.1f s %s\n",
		terminal.Printable(db), r.Plants, r.Commits, terminal.FormatTime(r.At), max(0, at.Sub(r.At).Seconds()), before)
}

// restoreObject restores the store from a backup in a bucket.
func restoreObject(
	ctx context.Context, object *backup.Object, db string, o *backupOptions, progress *terminal.Progress,
) (backupfile.Manifest, error) {
	m, err := object.Manifest(ctx)
	if err != nil {
		return m, err
	}
	r, err := object.Open(ctx)
	if err != nil {
		return m, err
	}
	defer r.Close()
	return backupfile.RestoreFrom(ctx, r, &m, db, o.force, progress.Part, backupfile.Later{})
}

// restoreStream restores the store from a backup on standard input.
func (p *program) restoreStream(
	ctx context.Context, db string, o *backupOptions, progress *terminal.Progress,
) (backupfile.Manifest, error) {
	var m *backupfile.Manifest
	if o.manifest != "" {
		read, err := backupfile.ReadManifest(o.manifest)
		if err != nil {
			return read, err
		}
		m = &read
	}
	in := terminal.InterruptibleReader(ctx, p.Stdin)
	return backupfile.RestoreFrom(ctx, in, m, db, o.force, progress.Part, backupfile.Later{})
}
