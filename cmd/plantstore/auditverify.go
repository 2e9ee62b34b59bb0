package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/plant"
	"plantstore/internal/terminal"
)

func newAuditVerify(p *program) *cobra.Command {
	var expected audit.Link
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the audit log for changed and missing entries",
		Long: `Check the chain of the audit log: no entry is changed, missing, added or moved.
The command prints the first fault and exits with 1, or prints the number of
entries and the head: sequence number and hash of the newest entry.

A person with write access to the store can replace the whole log by another valid
one. So note the head elsewhere from time to time, and compare the log with it by
--expect.`,
		Example: `  plantstore audit verify
  plantstore audit verify --json > head.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				v, err := o.VerifyAudit(ctx, expected)
				if refusal, ok := errors.AsType[*plant.Error](err); ok && refusal.Code == plant.CodeQueryInvalid {
					return config.Usagef("%w", err)
				}
				if err != nil {
					return err
				}
				return p.reportAudit(v)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	cmd.Flags().Func("expect", "a `head` that this command printed before, with colon: SEQUENCE:HASH",
		func(text string) (err error) {
			expected, err = audit.ParseLink(text)
			return err
		})
	p.bindJSON(cmd.Flags(), "print a JSON object")
	return cmd
}

// reportAudit prints the result of a verification. The error is that the log is damaged.
func (p *program) reportAudit(v admin.AuditVerification) (err error) {
	switch db := terminal.Printable(v.DB); {
	case v.Fault != nil:
		err = p.result(v, "%s\n", terminal.Printable(v.Fault.Error()))
	case v.Head == "":
		err = p.result(v, "the audit log of %s is undamaged: it has no entries yet\n", db)
	default:
		err = p.result(v, "the audit log of %s is undamaged: %d entries, head %s\n", db, v.Entries, v.Head)
	}
	if err == nil && !v.Whole {
		err = fmt.Errorf("the audit log of %s is damaged", v.DB)
	}
	return err
}
