package main

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

func newAudit(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List, verify and prune the audit log",
		Long: `List, verify and prune the audit log of the store. It has an entry for each change of
tokens, each copy of the plants, each start of a server and more. The server may
run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditList(p), newAuditVerify(p), newAuditPrune(p))
	return cmd
}

// auditRows returns the rows of the audit log after a sequence number.
func auditRows(ctx context.Context, engine store.Engine, after int64) iter.Seq2[audit.Row, error] {
	return audit.Rows(after, func(after int64, limit int) ([]audit.Row, error) {
		return engine.AuditRows(ctx, after, limit)
	})
}
