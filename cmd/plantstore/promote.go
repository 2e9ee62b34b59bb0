package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/backup"
	"plantstore/internal/terminal"
)

func newPromote(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "Make a standby the server that accepts plants",
		Long: `Make the standby that runs on the store of --db the server that accepts plants,
and wait until it is. Run the command on the machine of the standby.

The standby asks the other server to hand over. That one responds to its accepted
requests, copies the last commits to the backup directory, and becomes a standby
itself. If it does not respond, or has no --failover, the standby takes over without
it: with --backup-sync nothing acknowledged is lost.

After Ctrl-C, the standby goes on as before, unless it has taken over by then.`,
		Example: `  plantstore promote --db /var/lib/plantstore/plantstore.db`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.withSettings(cmd, p.promote) },
	}
	p.settings.BindStore(cmd.Flags())
	return cmd
}

func (p *program) promote(ctx context.Context) error {
	db, err := p.settings.DB.File()
	if err != nil {
		return err
	}
	delayed := func(reason string) {
		fmt.Fprintf(p.Stderr, "the standby cannot take over yet, and tries again: %s\n", terminal.Printable(reason))
	}
	if err := backup.Promote(ctx, db, delayed); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	_, err = fmt.Fprintf(p.Stdout, "the server of %s accepts plants now\n", terminal.Printable(db))
	return err
}
