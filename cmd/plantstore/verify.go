package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/backup"
	"plantstore/internal/config"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/terminal"
)

func newVerify(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check the store or a backup for damage",
		Long: `Check the whole store, or the backup FILE, for damage: the structure of the file,
each plant and token, and missing plants. The command changes nothing. The server
may run; its WAL grows until the command ends.

If FILE is s3://BUCKET/NAME, the command reads the backup and compares its size
and SHA-256 with the manifest. It stores no copy, so it does not check each plant;
restore does.

Each fault is a line on standard output. The exit code is 0 without a fault, and
1 with faults.`,
		Example: `  plantstore verify
  plantstore verify /mnt/backup/monday.db
  plantstore verify s3://nursery-backups/plants/monday.db --s3-region eu-west-1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.load(cmd); err != nil {
				return err
			}
			if len(args) > 0 && backup.IsBucket(args[0]) {
				return p.verifyObject(cmd.Context(), args[0])
			}
			path, err := p.settings.DB.File()
			verify := backupfile.Verify
			if len(args) > 0 {
				path, err = config.FilePath(args[0])
				verify = backupfile.VerifyFile
			}
			if err != nil {
				return err
			}
			progress := p.NewProgress(-1)
			v, err := verify(cmd.Context(), path, func(plants, _ int64) { progress.Plants(plants, -1) })
			progress.End()
			if cmd.Context().Err() != nil {
				return terminal.ErrInterrupted
			}
			if err != nil {
				return err
			}
			compared := ""
			switch {
			case v.Manifest:
				compared = "; it matches its manifest"
			case len(args) > 0:
				compared = "; not compared with a manifest"
			}
			n := len(v.Faults) + v.More
			facts := verifyFacts{
				path, n == 0, v.Manifest, v.Store, v.Commits, v.Plants, v.Tokens, n, append([]string{}, v.Faults...),
			}
			return p.reportVerification(path, n, v.Faults, facts,
				fmt.Sprintf("%s is undamaged: %d plants, %d tokens, last commit %d%s\n",
					terminal.Printable(path), v.Plants, v.Tokens, v.Commits, compared))
		},
	}
	p.settings.BindStore(cmd.Flags())
	p.settings.BindS3(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print a JSON object")
	return cmd
}

// verifyFacts is the output of verify --json.
type verifyFacts struct {
	File       string   `json:"file"`
	Whole      bool     `json:"whole"`
	Compared   bool     `json:"manifest_compared"`
	Store      string   `json:"store,omitempty"`
	Commits    int64    `json:"commits"`
	Plants     int64    `json:"plants"`
	Tokens     int64    `json:"tokens"`
	FaultCount int      `json:"fault_count"`
	Faults     []string `json:"faults"` // the first ones
}

// verifyObject compares a backup in a bucket with its manifest.
func (p *program) verifyObject(ctx context.Context, address string) error {
	object, err := p.object(address)
	if err != nil {
		return err
	}
	progress := p.NewProgress(0)
	progress.Part(0, 1)
	m, faults, err := object.Verify(ctx, progress.Part)
	progress.End()
	switch {
	case ctx.Err() != nil:
		return terminal.ErrInterrupted
	case err != nil:
		return fmt.Errorf("verify: %w", err)
	}
	n, path := len(faults), object.String()
	facts := verifyObjectFacts{path, n == 0, true, n, append([]string{}, faults...), m}
	return p.reportVerification(path, n, faults, facts,
		fmt.Sprintf("%s matches its manifest: %d plants, last commit %d, %d bytes; the plants were not checked\n",
			terminal.Printable(path), m.Plants, m.Commits, m.Bytes))
}

// verifyObjectFacts is the output of verify --json for a backup in a bucket.
type verifyObjectFacts struct {
	File       string   `json:"file"`
	Whole      bool     `json:"whole"`
	Compared   bool     `json:"manifest_compared"`
	FaultCount int      `json:"fault_count"`
	Faults     []string `json:"faults"`
	backupfile.Manifest
}

// reportVerification prints facts with --json, else the first of n faults of a file or, without a fault, a text. The
// error is that the file has faults.
func (p *program) reportVerification(path string, n int, faults []string, facts any, undamaged string) error {
	text := ""
	for _, fault := range faults {
		text += terminal.Printable(fault) + "\n"
	}
	err := p.result(facts, "%s", cmp.Or(text, undamaged))
	switch {
	case err != nil || n == 0:
		return err
	case n == 1:
		return fmt.Errorf("%s is damaged: 1 fault", path)
	}
	return fmt.Errorf("%s is damaged: %d faults", path, n)
}
