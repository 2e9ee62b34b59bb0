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
			plants := int64(0)
			progress.Plants(plants, -1)
			v, err := verify(cmd.Context(), path, func(more int64) {
				plants += more
				progress.Plants(plants, -1)
			})
			progress.End()
			if cmd.Context().Err() != nil {
				return terminal.ErrInterrupted
			}
			if err != nil {
				return err
			}
			if p.asJSON {
				err = terminal.WriteJSON(p.Stdout, newVerifyFacts(path, v))
			} else {
				err = p.printVerification(path, v, len(args) > 0)
			}
			return cmp.Or(err, damageError(path, v))
		},
	}
	p.settings.BindStore(cmd.Flags())
	p.settings.BindS3(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print a JSON object")
	return cmd
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
	v := backupfile.Verification{Manifest: true, Faults: faults}
	if p.asJSON {
		err = terminal.WriteJSON(p.Stdout, verifyObjectFacts{
			object.String(), len(faults) == 0, true, len(faults), append([]string{}, faults...), m,
		})
	} else {
		err = p.printObject(object.String(), m, faults)
	}
	return cmp.Or(err, damageError(object.String(), v))
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

func (p *program) printObject(name string, m backupfile.Manifest, faults []string) (err error) {
	for _, fault := range faults {
		_, errLine := fmt.Fprintln(p.Stdout, terminal.Printable(fault))
		err = cmp.Or(err, errLine)
	}
	if err != nil || len(faults) > 0 {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout,
		"%s matches its manifest: %d plants, last commit %d, %d bytes; the plants were not checked\n",
		terminal.Printable(name), m.Plants, m.Commits, m.Bytes)
	return err
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

func newVerifyFacts(path string, v backupfile.Verification) verifyFacts {
	n := len(v.Faults) + v.More
	faults := append([]string{}, v.Faults...)
	return verifyFacts{path, n == 0, v.Manifest, v.Store, v.Commits, v.Plants, v.Tokens, n, faults}
}

// damageError returns an error if a file has faults, else nil.
func damageError(path string, v backupfile.Verification) error {
	switch n := len(v.Faults) + v.More; n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s is damaged: 1 fault", path)
	default:
		return fmt.Errorf("%s is damaged: %d faults", path, n)
	}
}

// printVerification prints the faults, or the counts of a file without faults.
func (p *program) printVerification(path string, v backupfile.Verification, named bool) error {
	for _, fault := range v.Faults {
		if _, err := fmt.Fprintln(p.Stdout, terminal.Printable(fault)); err != nil {
			return err
		}
	}
	if len(v.Faults) > 0 {
		return nil
	}
	compared := ""
	switch {
	case v.Manifest:
		compared = "; it matches its manifest"
	case named:
		compared = "; not compared with a manifest"
	}
	_, err := fmt.Fprintf(p.Stdout, "%s is undamaged: %d plants, %d tokens, last commit %d%s\n",
		terminal.Printable(path), v.Plants, v.Tokens, v.Commits, compared)
	return err
}
