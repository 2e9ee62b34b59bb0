package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

func newWebhook(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "List, retry and drop dead letters of webhooks",
		Long: `List, retry and drop dead letters: deliveries of events to a webhook that the
server does not attempt any more. The server may run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWebhookList(p), newWebhookRetry(p), newWebhookDrop(p))
	return cmd
}

func newWebhookList(p *program) *cobra.Command {
	s := &settings{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters",
		Long: `List the dead letters, with the id of their webhook, the id of their plant and the
reason of the last failure.`,
		Example: `  plantstore webhook list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withOutbox(cmd, s, engineOptions{readOnly: true}, func(ctx context.Context, o webhook.Outbox) error {
				return printDeadLetters(p.stdout, deadLetters(ctx, o), asJSON)
			})
		},
	}
	s.bindStore(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print one JSON object per dead letter and line")
	return cmd
}

// withOutbox is withStore for the outbox.
func (p *program) withOutbox(
	cmd *cobra.Command, s *settings, o engineOptions, do func(context.Context, webhook.Outbox) error,
) error {
	return p.withStore(cmd, s, o, func(ctx context.Context, engine store.Engine) error {
		return do(ctx, engine.(anyEngine))
	})
}

// deadLetters returns all dead letters.
func deadLetters(ctx context.Context, o webhook.Outbox) iter.Seq2[store.DeadLetter, error] {
	return func(yield func(store.DeadLetter, error) bool) {
		for page := (store.DeadPage{Limit: 500}); ; {
			letters, err := o.DeadLetters(ctx, page)
			if err != nil {
				yield(store.DeadLetter{}, err)
				return
			}
			for _, d := range letters {
				if !yield(d, nil) {
					return
				}
				page.Webhook, page.Plant = d.Webhook, d.Plant
			}
			if len(letters) < page.Limit {
				return
			}
		}
	}
}

// deadLetterFacts is a line of webhook list --json. Times are in UTC.
type deadLetterFacts struct {
	WebhookID int64     `json:"webhook_id"`
	Address   string    `json:"address"` // the URL without its query
	PlantID   int64     `json:"plant_id"`
	Since     time.Time `json:"since"` // creation of the plant, or the last retry by an operator
	DeadAt    time.Time `json:"dead_at"`
	Attempts  int       `json:"attempts"`
	Reason    string    `json:"reason,omitempty"`
}

func printDeadLetters(w io.Writer, all iter.Seq2[store.DeadLetter, error], asJSON bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "WEBHOOK\tADDRESS\tPLANT\tSINCE\tDEAD SINCE\tATTEMPTS\tREASON")
	}
	for d, err := range all {
		if err != nil {
			return err
		}
		address := store.Webhook{URL: d.URL}.Address()
		if asJSON {
			facts := deadLetterFacts{d.Webhook, address, d.Plant, d.Since, d.DeadAt, d.Attempts, d.Reason}
			if err := writeJSON(w, facts); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\t%d\t%s\n", d.Webhook, printable(address), d.Plant,
			formatTime(d.Since), formatTime(d.DeadAt), d.Attempts, printable(d.Reason))
	}
	return table.Flush()
}

func newWebhookRetry(p *program) *cobra.Command {
	cmd := p.newDeadCommand(webhook.Outbox.RetryDead, "%d dead letters are due now\n")
	cmd.Use = "retry [--webhook ID] [--plant ID] [--all]"
	cmd.Short = "Deliver dead letters again"
	cmd.Long = `Deliver dead letters again, as new events: a server attempts them at once, and for
as long as --webhook-give-up. The dead letters of an address that no server has in
its settings stay.`
	cmd.Example = `  plantstore webhook retry --all
  plantstore webhook retry --webhook 1 --plant -7`
	return cmd
}

func newWebhookDrop(p *program) *cobra.Command {
	cmd := p.newDeadCommand(webhook.Outbox.DropDead, "dropped %d dead letters\n")
	cmd.Use = "drop [--webhook ID] [--plant ID] [--all]"
	cmd.Short = "Remove dead letters"
	cmd.Long = `Remove dead letters. Their receivers never learn of the plants.`
	cmd.Example = `  plantstore webhook drop --webhook 2`
	return cmd
}

// newDeadCommand returns a command that changes the dead letters that its flags select. done is the format of its
// output.
func (p *program) newDeadCommand(
	change func(webhook.Outbox, context.Context, store.DeadSelector, audit.Origin) (int64, error), done string,
) *cobra.Command {
	s := &settings{}
	var selector store.DeadSelector
	var plantID string
	var all, asJSON bool
	cmd := &cobra.Command{
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all == (cmd.Flags().Changed("webhook") || plantID != "") {
				return usagef("give --webhook, --plant or both, or --all alone")
			}
			if plantID != "" {
				id, err := strconv.ParseInt(plantID, 10, 64)
				if err != nil {
					return usagef("plant: %q is not a 64-bit integer", plantID)
				}
				selector.Plant = &id
			}
			return p.withOutbox(cmd, s, engineOptions{mustExist: true}, func(ctx context.Context, o webhook.Outbox) error {
				n, err := changeDead(ctx, selector, func(ctx context.Context) (int64, error) {
					return change(o, ctx, selector, p.operator())
				})
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(p.stdout, deadCount{n})
				}
				_, err = fmt.Fprintf(p.stdout, done, n)
				return err
			})
		},
	}
	s.bindStore(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print the number as a JSON object")
	cmd.Flags().Int64Var(&selector.Webhook, "webhook", 0, "dead letters of the webhook with this `ID`")
	cmd.Flags().StringVar(&plantID, "plant", "", "dead letters of the plant with this `ID`")
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters")
	return cmd
}

// deadCount is the output of webhook retry --json and webhook drop --json.
type deadCount struct {
	DeadLetters int64 `json:"dead_letters"`
}

// changeDead repeats a change of store.DeadBatch dead letters until there are no more, and returns their number.
func changeDead(
	ctx context.Context, selector store.DeadSelector, change func(context.Context) (int64, error),
) (changed int64, err error) {
	for {
		n, err := change(ctx)
		changed += n
		if err != nil && changed > 0 {
			err = fmt.Errorf("%d dead letters were changed; then: %w", changed, err)
		}
		if err != nil {
			return changed, err
		}
		if n < store.DeadBatch {
			break
		}
	}
	if changed == 0 && selector != (store.DeadSelector{}) {
		return 0, errors.New("no such dead letter of an address in the settings of a server; see plantstore webhook list")
	}
	return changed, nil
}
