package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

func newWebhook(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "List, retry and drop dead letters of webhooks",
		Long: `List, retry and drop dead letters: deliveries of events to a webhook that the
server does not attempt any more. The server may run.`,
	}
	cmd.AddCommand(newWebhookList(p), newWebhookRetry(p), newWebhookDrop(p))
	return cmd
}

func newWebhookList(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters",
		Long: `List the dead letters, with the id of their webhook, the id of their plant and the
reason of the last failure.`,
		Example: `  plantstore webhook list
  plantstore webhook list --server https://plants.example:8081`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				return p.printDeadLetters(pages(func(cursor string) ([]admin.DeadLetter, string, error) {
					page, err := o.DeadLetters(ctx, admin.ListQuery{Cursor: cursor, Limit: admin.PageMax})
					return page.DeadLetters, page.Next, err
				}))
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print one JSON object per dead letter and line")
	return cmd
}

func (p *program) printDeadLetters(all iter.Seq2[admin.DeadLetter, error]) error {
	table := terminal.NewTable(p.Stdout)
	if !p.asJSON {
		table.Row("WEBHOOK", "ADDRESS", "PLANT", "SINCE", "DEAD SINCE", "ATTEMPTS", "REASON")
	}
	for d, err := range all {
		if err != nil {
			return err
		}
		if p.asJSON {
			if err := terminal.WriteJSON(p.Stdout, d); err != nil {
				return err
			}
			continue
		}
		table.Row(d.WebhookID, d.Address, d.PlantID, d.Since, d.DeadAt, d.Attempts, d.Reason)
	}
	return table.Flush()
}

func newWebhookRetry(p *program) *cobra.Command {
	cmd := p.newDeadCommand(operations.RetryDead, "%d dead letters are due now\n")
	cmd.Use = "retry [--webhook ID] [--plant ID] [--all]"
	cmd.Short = "Deliver dead letters again"
	cmd.Long = `Deliver dead letters again, as new events: a server attempts them at once, and for
three days. The dead letters of an address that no server has in
its settings stay.`
	cmd.Example = `  plantstore webhook retry --all
  plantstore webhook retry --webhook 1 --plant -7`
	return cmd
}

func newWebhookDrop(p *program) *cobra.Command {
	cmd := p.newDeadCommand(operations.DropDead, "dropped %d dead letters\n")
	cmd.Use = "drop [--webhook ID] [--plant ID] [--all]"
	cmd.Short = "Remove dead letters"
	cmd.Long = `Remove dead letters. Their receivers never learn of the plants.`
	cmd.Example = `  plantstore webhook drop --webhook 2`
	return cmd
}

// deadChange is operations.RetryDead or operations.DropDead.
type deadChange func(operations, context.Context, admin.DeadSelection, audit.Origin) (admin.DeadLettersChanged, error)

// newDeadCommand returns a command that changes the dead letters that its flags select. done is the format of its
// output.
func (p *program) newDeadCommand(change deadChange, done string) *cobra.Command {
	var d admin.DeadSelection
	var webhookID, plantID int64
	cmd := &cobra.Command{
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("webhook") {
				d.WebhookID = &webhookID
			}
			if cmd.Flags().Changed("plant") {
				d.PlantID = &plantID
			}
			switch {
			case d.All == (d.WebhookID != nil || d.PlantID != nil):
				return config.Usagef("give --webhook, --plant or both, or --all alone")
			case d.WebhookID != nil && webhookID < 1:
				return config.Usagef("webhook: %d is not the id of a webhook; see plantstore webhook list", webhookID)
			}
			return p.operate(cmd, existing, func(ctx context.Context, o operations) error {
				n, err := change.repeat(ctx, o, d, p.operator())
				if err != nil {
					return err
				}
				return p.result(deadCount{n}, done, n)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print the number as a JSON object")
	cmd.Flags().Int64Var(&webhookID, "webhook", 0, "dead letters of the webhook with this `ID`")
	cmd.Flags().Var(config.ID(&plantID), "plant", "dead letters of the plant with this `ID`")
	cmd.Flags().BoolVar(&d.All, "all", false, "all dead letters")
	return cmd
}

// deadCount is the output of webhook retry --json and webhook drop --json.
type deadCount struct {
	DeadLetters int64 `json:"dead_letters"`
}

// repeat changes dead letters until none is left, and returns their number.
func (change deadChange) repeat(
	ctx context.Context, o operations, d admin.DeadSelection, by audit.Origin,
) (changed int64, err error) {
	for more := true; more; {
		result, err := change(o, ctx, d, by)
		changed += result.DeadLetters
		if err != nil && changed > 0 {
			err = fmt.Errorf("%d dead letters were changed; then: %w", changed, err)
		}
		if err != nil {
			return changed, err
		}
		more = result.More
	}
	if changed == 0 && !d.All {
		return 0, errors.New("no such dead letter of an address in the settings of a server; see plantstore webhook list")
	}
	return changed, nil
}
