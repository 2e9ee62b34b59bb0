package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/config"
	"plantstore/internal/remote"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/terminal"
)

// backupOptions are the flags of backup and restore.
type backupOptions struct {
	manifest string // path of the manifest of a stream; empty: none
	force    bool   // restore: replace a store
}

func newBackup(p *program) *cobra.Command {
	o := &backupOptions{}
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the store to a new file, a bucket or standard output",
		Long: `Copy all plants and tokens of the store to a new file. The server may run: the
backup contains every plant that it acknowledged before the command started. The
file appears when it is complete and on stable storage. The manifest FILE.json
beside it has the counts and the SHA-256: keep both files together.

If FILE is -, the command writes the backup to standard output, and the manifest
to the file that --manifest names. If FILE is s3://BUCKET/NAME, it uploads both,
with the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or in the shared
credentials file. It first copies the store to a temporary file, in TMPDIR or else
beside the store.

With --server, a server with --backup-dir makes the backup; the command downloads
it, compares it with its manifest, and removes it from the server.`,
		Example: `  plantstore backup /mnt/backup/monday.db
  plantstore backup /mnt/backup/monday.db --db /var/lib/plantstore/plantstore.db
  plantstore backup s3://nursery-backups/plants/monday.db
  plantstore backup - | ssh host plantstore restore - --db copy.db`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.checkBackup(args[0], o); err != nil {
				return err
			}
			if p.server.URL != "" {
				return p.withServer(cmd, func(ctx context.Context, r *remote.Client) error {
					return p.backupServer(ctx, r, args[0], o)
				})
			}
			return p.withSettings(cmd, func(ctx context.Context) error { return p.backup(ctx, args[0], o) })
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	p.bindBackup(cmd.Flags(), o, "write the manifest to this `file`; only if FILE is -")
	return cmd
}

func (p *program) bindBackup(f *pflag.FlagSet, o *backupOptions, manifestUsage string) {
	f.Var(config.FileName(&o.manifest), "manifest", manifestUsage)
	p.bindJSON(f, "print a JSON object")
}

var errManifestFlag = config.Usagef("manifest: use it with - only; the manifest of FILE is FILE.json")

// backupFacts is the output of backup --json.
type backupFacts struct {
	File string `json:"file"`
	backupfile.Manifest
}

// backupDetails returns the details of a backup. A backup that did not end has no SHA-256.
func backupDetails(path string, m backupfile.Manifest) []audit.Detail {
	return []audit.Detail{
		fileDetail(path), countDetail("plants", m.Plants), countDetail("commits", m.Commits),
		{Key: "sha256", Value: m.SHA256},
	}
}

// checkBackup returns an error for flags that contradict the destination of a backup, before any work.
func (p *program) checkBackup(to string, o *backupOptions) error {
	_, isTerminal := terminal.IsTerminal(p.Stdout)
	switch {
	case to != terminal.StreamName && o.manifest != "":
		return errManifestFlag
	case to != terminal.StreamName:
		return nil
	case p.asJSON:
		return config.Usagef("json: standard output has the backup; use --manifest instead")
	case isTerminal:
		return config.Usagef("standard output is a terminal; redirect it to a pipe or a file")
	case o.manifest == "":
		return nil
	}
	if err := backupfile.RefuseExisting(o.manifest); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	return nil
}

// backup backs up the store, and records that in the audit log.
func (p *program) backup(ctx context.Context, to string, o *backupOptions) error {
	db, err := p.settings.DB.File()
	if err != nil {
		return err
	}
	object, err := p.object(to)
	if err != nil {
		return err
	}
	progress := p.NewProgress(0)
	progress.Part(0, 1)
	name := to
	var m backupfile.Manifest
	switch {
	case object != nil:
		m, err = object.Make(ctx, db, p.env.ScratchDir(db), func(step string) backupfile.Progress {
			if step == "copy" { // a quarter of the work
				return func(done, all int64) { progress.Part(done, 4*all) }
			}
			return func(done, all int64) { progress.Part(all+3*done, 4*all) }
		})
	case to == terminal.StreamName:
		name = "standard output"
		out := terminal.InterruptibleWriter(ctx, p.Stdout)
		m, err = backupfile.BackupTo(ctx, db, out, p.env.ScratchDir(db), progress.Part)
	default:
		m, err = backupfile.Backup(ctx, db, to, "", progress.Part)
	}
	progress.End()
	if m.Store != "" { // else nothing was copied
		p.auditReading(ctx, audit.StoreBackup, append(backupDetails(to, m), resultDetail(err))...)
	}
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return terminal.ErrInterrupted
	case err != nil:
		return fmt.Errorf("backup to %s: %w", name, err)
	}
	return p.reportBackup(to, m, o)
}

// reportBackup prints the facts of a backup. If standard output has the backup, it prints them on standard error, and
// writes the manifest to its file.
func (p *program) reportBackup(to string, m backupfile.Manifest, o *backupOptions) error {
	if to != terminal.StreamName {
		return p.result(backupFacts{to, m}, "%s has %d plants, up to commit %d\n",
			terminal.Printable(to), m.Plants, m.Commits)
	}
	if o.manifest != "" {
		if err := m.Write(o.manifest); err != nil {
			return fmt.Errorf("backup to standard output: %w", err)
		}
	}
	if !p.Quiet {
		fmt.Fprintf(p.Stderr, "the backup has %d plants, up to commit %d, and %d bytes with SHA-256 %s\n",
			m.Plants, m.Commits, m.Bytes, m.SHA256)
	}
	return nil
}

// object returns the backup in a bucket that an argument names; nil for a path and for a stream.
func (p *program) object(argument string) (*backup.Object, error) {
	if !backup.IsBucket(argument) {
		_, err := config.FilePath(argument)
		return nil, err
	}
	at, err := s3.ParseLocation(argument)
	if err != nil {
		return nil, config.Usagef("%w", err)
	}
	o, err := backup.OpenObject(s3.FromEnvironment(p.env.Vars), at)
	if err != nil {
		return nil, config.Usagef("%w", err)
	}
	p.warnOfEndpoint()
	return o, nil
}

// warnOfEndpoint warns of an S3 server without TLS.
func (p *program) warnOfEndpoint() {
	if endpoint := s3.FromEnvironment(p.env.Vars).Endpoint; config.SendsInTheClear(endpoint) {
		fmt.Fprintf(p.Stderr, "warning: %s has no TLS: others on the network can read and change the backup; use https\n",
			endpoint)
	}
}
