package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/sqlite"
)

func newBackup(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store to a new file, also while the server runs",
		Long: `Copy the whole store, plants and tokens, to a new file, also while the server
runs and takes plants: every plant that was answered before is in it. The file
appears when it is complete and on stable storage; beside it lies FILE.json,
which says what it holds and has its SHA-256. Keep the two together: restore and
its checks need both.

A server that runs makes backups by itself with --backup-dir.`,
		Example: `  plantstore backup /mnt/backup/monday.db
  plantstore backup /mnt/backup/monday.db --db /var/lib/plantstore/plantstore.db`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			db, err := s.db.file()
			if err != nil {
				return err
			}
			file, err := filePath(args[0])
			if err != nil {
				return err
			}
			progress := p.newProgress(0)
			progress.part(0, 1)
			m, err := sqlite.Backup(cmd.Context(), db, file, progress.part)
			progress.end()
			if errors.Is(err, context.Canceled) {
				return errInterrupted
			}
			if err != nil {
				return fmt.Errorf("backup to %s: %w", file, err)
			}
			_, err = fmt.Fprintf(p.stdout, "%s has %d plants, up to commit %d\n", file, m.Plants, m.Commits)
			return err
		},
	}
	s.bindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	return cmd
}

func newRestore(p *program) *cobra.Command {
	s := &settings{}
	var force bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a backup the store",
		Long: `Make a backup the store that --db names. First the backup is held against its
manifest, FILE.json, and looked through as verify does; then the store is there
as a whole, or nothing has changed. A store that is there is replaced only with
--force, and not while a server runs on it.`,
		Example: `  plantstore restore /mnt/backup/monday.db
  plantstore restore /mnt/backup/monday.db --db plantstore.db --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			db, err := s.db.file()
			if err != nil {
				return err
			}
			file, err := filePath(args[0])
			if err != nil {
				return err
			}
			progress := p.newProgress(0)
			progress.part(0, 1)
			m, err := sqlite.Restore(cmd.Context(), file, db, force, progress.part)
			progress.end()
			switch {
			case errors.Is(err, context.Canceled):
				return errInterrupted
			case errors.Is(err, sqlite.ErrExists):
				return fmt.Errorf("restore: %w; to lose it and have the backup instead, give --force", err)
			case err != nil:
				return fmt.Errorf("restore %s: %w", file, err)
			}
			_, err = fmt.Fprintf(p.stdout, "%s has %d plants, as they were at %s\n", db, m.Plants, formatTime(m.MadeAt))
			return err
		},
	}
	s.bindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "replace the store that is there")
	return cmd
}
