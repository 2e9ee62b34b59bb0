package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
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
	s, server := &settings{}, &serverFlags{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters",
		Long: `List the dead letters, with the id of their webhook, the id of their plant and the
reason of the last failure.`,
		Example: `  plantstore webhook list
  plantstore webhook list --server https://plants.example:8081`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.operate(cmd, s, server, engineOptions{readOnly: true}, func(ctx context.Context, o operations) error {
				return printDeadLetters(p.stdout, o.deadLetters(ctx), asJSON)
			})
		},
	}
	s.bindStore(cmd.Flags())
	server.bind(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print one JSON object per dead letter and line")
	return cmd
}

func (l *local) deadLetters(ctx context.Context) iter.Seq2[admin.DeadLetter, error] {
	outbox := l.engine.(webhook.Outbox) // every engine has one
	return func(yield func(admin.DeadLetter, error) bool) {
		for page := (store.DeadPage{Limit: 500}); ; {
			letters, err := outbox.DeadLetters(ctx, page)
			if err != nil {
				yield(admin.DeadLetter{}, err)
				return
			}
			for _, d := range letters {
				if !yield(admin.NewDeadLetter(d), nil) {
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

func (r *remote) deadLetters(ctx context.Context) iter.Seq2[admin.DeadLetter, error] {
	return func(yield func(admin.DeadLetter, error) bool) {
		query := []string{"limit", strconv.Itoa(remotePage)}
		for {
			var page admin.DeadLetterPage
			if err := r.do(ctx, http.MethodGet, r.at(deadLettersPath, query...), nil, &page); err != nil {
				yield(admin.DeadLetter{}, err)
				return
			}
			for _, d := range page.DeadLetters {
				if !yield(d, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query = []string{"limit", strconv.Itoa(remotePage), "cursor", page.Next}
		}
	}
}

// deadLettersPath is the path of the dead letters in the admin API.
const deadLettersPath = "webhooks/dead-letters"

func printDeadLetters(w io.Writer, all iter.Seq2[admin.DeadLetter, error], asJSON bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "WEBHOOK\tADDRESS\tPLANT\tSINCE\tDEAD SINCE\tATTEMPTS\tREASON")
	}
	for d, err := range all {
		if err != nil {
			return err
		}
		if asJSON {
			if err := writeJSON(w, d); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\t%d\t%s\n", d.WebhookID, printable(d.Address), d.PlantID,
			formatTime(d.Since), formatTime(d.DeadAt), d.Attempts, printable(d.Reason))
	}
	return table.Flush()
}

func newWebhookRetry(p *program) *cobra.Command {
	cmd := p.newDeadCommand(deadRetry, "%d dead letters are due now\n")
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
	cmd := p.newDeadCommand(deadDrop, "dropped %d dead letters\n")
	cmd.Use = "drop [--webhook ID] [--plant ID] [--all]"
	cmd.Short = "Remove dead letters"
	cmd.Long = `Remove dead letters. Their receivers never learn of the plants.`
	cmd.Example = `  plantstore webhook drop --webhook 2`
	return cmd
}

// deadChange is a change of dead letters: the last segment of its path in the admin API.
type deadChange string

const (
	deadRetry deadChange = "retry"
	deadDrop  deadChange = "drop"
)

// newDeadCommand returns a command that changes the dead letters that its flags select. done is the format of its
// output.
func (p *program) newDeadCommand(change deadChange, done string) *cobra.Command {
	s, server := &settings{}, &serverFlags{}
	var selector store.DeadSelector
	var plantID string
	var all, asJSON bool
	cmd := &cobra.Command{
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all == (cmd.Flags().Changed("webhook") || plantID != "") {
				return usagef("give --webhook, --plant or both, or --all alone")
			}
			if cmd.Flags().Changed("webhook") && selector.Webhook < 1 {
				return usagef("webhook: %d is not the id of a webhook; see plantstore webhook list", selector.Webhook)
			}
			if plantID != "" {
				id, err := strconv.ParseInt(plantID, 10, 64)
				if err != nil {
					return usagef("plant: %q is not a 64-bit integer", plantID)
				}
				selector.Plant = &id
			}
			return p.operate(cmd, s, server, engineOptions{mustExist: true}, func(ctx context.Context, o operations) error {
				n, err := changeDead(ctx, o, change, selector)
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
	server.bind(cmd.Flags())
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

func (l *local) changeDead(
	ctx context.Context, change deadChange, selector store.DeadSelector,
) (result admin.DeadLettersChanged, err error) {
	outbox := l.engine.(webhook.Outbox)
	do := outbox.RetryDead
	if change == deadDrop {
		do = outbox.DropDead
	}
	result.DeadLetters, err = do(ctx, selector, l.p.operator())
	result.More = result.DeadLetters == store.DeadBatch
	return result, err
}

func (r *remote) changeDead(
	ctx context.Context, change deadChange, selector store.DeadSelector,
) (result admin.DeadLettersChanged, err error) {
	body := map[string]any{}
	if selector.Webhook != 0 {
		body["webhook_id"] = selector.Webhook
	}
	if selector.Plant != nil {
		body["plant_id"] = *selector.Plant
	}
	if len(body) == 0 {
		body["all"] = true
	}
	err = r.do(ctx, http.MethodPost, r.at(deadLettersPath+"/"+string(change)), body, &result)
	return result, err
}

// changeDead repeats a change until no dead letter is left, and returns their number.
func changeDead(
	ctx context.Context, o operations, change deadChange, selector store.DeadSelector,
) (changed int64, err error) {
	for more := true; more; {
		result, err := o.changeDead(ctx, change, selector)
		changed += result.DeadLetters
		if err != nil && changed > 0 {
			err = fmt.Errorf("%d dead letters were changed; then: %w", changed, err)
		}
		if err != nil {
			return changed, err
		}
		more = result.More
	}
	if changed == 0 && selector != (store.DeadSelector{}) {
		return 0, errors.New("no such dead letter of an address in the settings of a server; see plantstore webhook list")
	}
	return changed, nil
}
