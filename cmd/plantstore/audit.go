package main

import "github.com/spf13/cobra"

func newAudit(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List, verify and prune the audit log",
		Long: `List, verify and prune the audit log of the store. It has an entry for each change of
tokens, each copy of the plants, each start of a server and more. The server may
run.`,
	}
	cmd.AddCommand(newAuditList(p), newAuditVerify(p), newAuditPrune(p))
	return cmd
}
