package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/sqlite"
)

func newVerify(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Look for damage in the store or in a backup of it",
		Long: `Read the whole store, or the file that is given, and look for damage: in how the
file is built, in each plant and token, and for plants that were stored and are
not there any more. The store may be served, stopped, or be a backup; nothing in
it is changed. While a server runs, its WAL grows until this is done.

Every fault is named on standard output. The exit code is 0 if there is none,
else 1.`,
		Example: `  plantstore verify
  plantstore verify /mnt/backup/monday.db`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			path, err := s.db.file()
			verify := sqlite.Verify
			if len(args) > 0 {
				path, err = filePath(args[0])
				verify = sqlite.VerifyFile
			}
			if err != nil {
				return err
			}
			progress := p.newProgress(-1)
			plants := int64(0)
			progress.plants(plants, -1)
			v, err := verify(cmd.Context(), path, func(more int64) {
				plants += more
				progress.plants(plants, -1)
			})
			progress.end()
			if cmd.Context().Err() != nil {
				return errInterrupted
			}
			if err != nil {
				return err
			}
			return p.printVerification(path, v, len(args) > 0)
		},
	}
	s.bindStore(cmd.Flags())
	p.bindQuiet(cmd.Flags())
	return cmd
}

func (p *program) printVerification(path string, v sqlite.Verification, named bool) error {
	for _, fault := range v.Faults {
		if _, err := fmt.Fprintln(p.stdout, printable(fault)); err != nil {
			return err
		}
	}
	if n := len(v.Faults) + v.More; n == 1 {
		return fmt.Errorf("%s is damaged: 1 fault was found", path)
	} else if n > 1 {
		return fmt.Errorf("%s is damaged: %d faults were found", path, n)
	}
	compared := ""
	switch {
	case v.Manifest:
		compared = "; it is the file that its manifest describes"
	case named:
		compared = "; no manifest: only the file itself was checked"
	}
	_, err := fmt.Fprintf(p.stdout, "%s is whole: %d plants, %d tokens, last commit %d%s\n", path, v.Plants, v.Tokens, v.Commits, compared)
	return err
}
