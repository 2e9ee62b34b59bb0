package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/backup"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/terminal"
)

func newVerify(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [FILE|DESTINATION]",
		Short: "Check the store, a backup or the destination of backups for damage",
		Long: `Check the whole store, or the backup FILE, for damage: the structure of the file,
each plant and token, and missing plants. The command changes nothing. The server
may run; its WAL grows until the command ends.

If FILE is s3://BUCKET/NAME, the command only compares the size and the SHA-256 of
the backup with the manifest; restore also checks each plant.

For the DESTINATION of a server's backups (--backup-dir), the command checks all of
them, and that no commit after the newest one is missing.

Each fault is a line on standard output, and the exit code is then 1.

There is no --server, because the command reads the file itself. A server verifies
its backups on request, in the console or by its admin API.`,
		Example: `  plantstore verify
  plantstore verify /mnt/backup/monday.db
  plantstore verify /mnt/backup
  plantstore verify s3://nursery-backups/plants/monday.db`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				p.env.SettingsFile = "" // which names a store
			}
			return p.withSettings(cmd, func(ctx context.Context) error {
				if len(args) == 0 {
					path, err := p.settings.DB.File()
					if err != nil {
						return err
					}
					return p.verify(ctx, path, backupfile.Verify, "")
				}
				object, archive, err := p.source(ctx, args[0])
				switch {
				case err != nil:
					return err
				case archive:
					return p.verifyArchive(ctx, args[0])
				case object != nil:
					return p.verifyObject(ctx, object)
				}
				return p.verify(ctx, args[0], backupfile.VerifyFile, "; not compared with a manifest")
			})
		},
	}
	p.settings.BindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print a JSON object")
	return cmd
}

// verdict is the common part of the output of verify --json.
type verdict struct {
	File       string   `json:"file"`
	Whole      bool     `json:"whole"`
	Compared   bool     `json:"manifest_compared"`
	FaultCount int      `json:"fault_count"`
	Faults     []string `json:"faults"` // the first ones
}

// newVerdict returns the verdict on a file with the first faults and the number of the others.
func newVerdict(path string, compared bool, faults []string, more int) verdict {
	n := len(faults) + more
	return verdict{path, n == 0, compared, n, append([]string{}, faults...)}
}

// verifyFacts is the output of verify --json.
type verifyFacts struct {
	verdict
	Store   string `json:"store,omitempty"`
	Commits int64  `json:"commits"`
	Plants  int64  `json:"plants"`
	Tokens  int64  `json:"tokens"`
}

// verify checks a file by a function of package backupfile. compared is a note for a file without a manifest.
func (p *program) verify(
	ctx context.Context, path string,
	check func(context.Context, string, backupfile.Progress) (backupfile.Verification, error), compared string,
) error {
	progress := p.NewProgress(-1)
	v, err := check(ctx, path, func(plants, _ int64) { progress.Plants(plants, -1) })
	progress.End()
	if err != nil {
		return err
	}
	if v.Manifest {
		compared = "; it matches its manifest"
	}
	facts := verifyFacts{newVerdict(path, v.Manifest, v.Faults, v.More), v.Store, v.Commits, v.Plants, v.Tokens}
	return p.reportVerification(facts.verdict, facts,
		fmt.Sprintf("%s is undamaged: %d plants, %d tokens, last commit %d%s\n",
			terminal.Printable(path), v.Plants, v.Tokens, v.Commits, compared))
}

// verifyObjectFacts is the output of verify --json for a backup in a bucket.
type verifyObjectFacts struct {
	verdict
	backupfile.Manifest
}

// verifyObject compares a backup in a bucket with its manifest.
func (p *program) verifyObject(ctx context.Context, object *backup.Object) error {
	progress := p.NewProgress(0)
	progress.Part(0, 1)
	var faults []string
	m, err := object.Manifest(ctx)
	if err == nil {
		faults, err = object.Verify(ctx, m, progress.Part)
	}
	progress.End()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	facts := verifyObjectFacts{newVerdict(object.String(), true, faults, 0), m}
	return p.reportVerification(facts.verdict, facts,
		fmt.Sprintf("%s matches its manifest: %d plants, last commit %d, %d bytes; the plants were not checked\n",
			terminal.Printable(facts.File), m.Plants, m.Commits, m.Bytes))
}

// verifyArchiveFacts is the output of verify --json for the destination of backups.
type verifyArchiveFacts struct {
	verdict
	backup.Verification
}

// verifyArchive checks the destination of backups.
func (p *program) verifyArchive(ctx context.Context, address string) error {
	archive, err := backup.OpenArchive(ctx, address, s3.FromEnvironment(p.env.Vars), p.settings.DB.Path)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	progress := p.NewProgress(0)
	progress.Part(0, 1)
	v, err := archive.Verify(ctx, progress.Part)
	progress.End()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for _, left := range v.LeftOut {
		fmt.Fprintf(p.Stderr, "note: %s\n", terminal.Printable(left))
	}
	first := v.Faults[:min(len(v.Faults), faultsMax)]
	facts := verifyArchiveFacts{newVerdict(address, true, first, len(v.Faults)-len(first)), v}
	return p.reportVerification(facts.verdict, facts, fmt.Sprintf(
		"%s is undamaged: %d backups and %d segments, last commit %d of %s\n",
		terminal.Printable(address), v.Backups, v.Segments, v.Commits, terminal.FormatTime(v.At)))
}

const faultsMax = 20 // that are printed

// reportVerification prints facts with --json, else the first faults of a file or, without a fault, a text. The error
// is that the file has faults.
func (p *program) reportVerification(v verdict, facts any, undamaged string) error {
	text := ""
	for _, fault := range v.Faults {
		text += terminal.Printable(fault) + "\n"
	}
	err := p.result(facts, "%s", cmp.Or(text, undamaged))
	switch {
	case err != nil || v.Whole:
		return err
	case v.FaultCount == 1:
		return fmt.Errorf("%s is damaged: 1 fault", v.File)
	}
	return fmt.Errorf("%s is damaged: %d faults", v.File, v.FaultCount)
}
