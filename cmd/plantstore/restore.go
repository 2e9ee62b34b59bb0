package main

import (
	"context"
	"errors"
	"fmt"

	"plantstore/internal/sqlite"

	"github.com/spf13/cobra"
)

func newRestore(p *program) *cobra.Command {
	s := &settings{}
	o := &backupOptions{}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a backup the store",
		Long: `Make a backup the store that --db names. First the backup is compared with its
manifest, FILE.json, and checked as verify does; then the store is there as a
whole, or nothing has changed. A store that is there is replaced only with
--force, and not while a server runs on it.

If FILE is -, the backup is read from standard input, and --manifest names the
file of its manifest. Without it, only the backup itself is checked: that it is
complete, and all its plants and tokens are as they were stored.`,
		Example: `  plantstore restore /mnt/backup/monday.db
  plantstore restore /mnt/backup/monday.db --db plantstore.db --force
  zstdcat monday.db.zst | plantstore restore - --manifest monday.db.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			db, err := s.db.file()
			if err != nil {
				return err
			}
			if o.manifest != "" && args[0] != streamArg {
				return errManifestFlag
			}
			return p.restore(cmd.Context(), args[0], db, o)
		},
	}
	s.bindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	o.bind(cmd.Flags(), "compare the backup on standard input with this manifest, a `file`")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace the store that is there")
	return cmd
}

// restoreFacts is what restore --json prints.
type restoreFacts struct {
	DB       string `json:"db"`
	Compared bool   `json:"manifest_compared"`
	sqlite.Manifest
}

func (p *program) restore(ctx context.Context, from, db string, o *backupOptions) (err error) {
	progress := p.newProgress(0)
	var m sqlite.Manifest
	name := "standard input"
	if from == streamArg {
		m, err = p.restoreStream(ctx, db, o, progress)
	} else {
		if name, err = filePath(from); err != nil {
			return err
		}
		progress.part(0, 1)
		m, err = sqlite.Restore(ctx, name, db, o.force, progress.part)
	}
	progress.end()
	var usage *usageError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		return errInterrupted
	case errors.As(err, &usage):
		return err
	case errors.Is(err, sqlite.ErrExists):
		return fmt.Errorf("restore: %w; to lose it and have the backup instead, give --force", err)
	case err != nil:
		return fmt.Errorf("restore %s: %w", name, err)
	case o.asJSON:
		return writeJSON(p.stdout, restoreFacts{db, !m.MadeAt.IsZero(), m})
	case m.MadeAt.IsZero():
		_, err = fmt.Fprintf(p.stdout, "%s has %d plants, up to commit %d; no manifest: only the backup itself was checked\n", printable(db), m.Plants, m.Commits)
	default:
		_, err = fmt.Fprintf(p.stdout, "%s has %d plants, as they were at %s\n", printable(db), m.Plants, formatTime(m.MadeAt))
	}
	return err
}

func (p *program) restoreStream(ctx context.Context, db string, o *backupOptions, progress *progress) (sqlite.Manifest, error) {
	if _, terminal := isTerminal(p.stdin); terminal {
		return sqlite.Manifest{}, usagef("standard input is a terminal: pipe a backup into it, or name a file")
	}
	var m *sqlite.Manifest
	if o.manifest != "" {
		read, err := sqlite.ReadManifest(o.manifest)
		if err != nil {
			return read, err
		}
		m = &read
	}
	progress.part(0, 1)
	return sqlite.RestoreFrom(ctx, interruptible(ctx, p.stdin), m, db, o.force, progress.part)
}
