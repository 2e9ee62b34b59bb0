package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/config"
	"plantstore/internal/move"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

func newMove(p *program) *cobra.Command {
	var from, to config.StoreAddress
	var abandon bool
	cmd := &cobra.Command{
		Use:   "move --from STORE --to STORE",
		Short: "Move all plants and tokens to a new store, while no server runs",
		Long: `Move all plants, with their times and creators, all tokens, the audit log and the
webhooks to another store. Each store is a file or the URL of a PostgreSQL
database. The new file must not exist; a database must have no store, or an
unused one.

Stop all servers of the old store first. The command reads the new store back and
compares it with the old one; then the new store appears, and no server starts on
the old one again. After a failure, an interruption or a kill, run the same
command again: it starts from the beginning, and the old store is unchanged.

--abandon makes a store that was moved accept plants again; it lacks the plants
that only the new store has.

On PostgreSQL, move as the role that owns the tables. Put its password into the
file that PGPASSFILE names, or into PGPASSWORD.`,
		Example: `  plantstore move --from plantstore.db --to 'postgres://plantstore@db.example/plants?sslmode=verify-full'
  plantstore move --from plantstore.db --abandon`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case from.IsZero():
				return config.Usagef("from: name the store to move, a file or a URL")
			case abandon && !to.IsZero():
				return config.Usagef("to: --abandon needs only --from; omit --to")
			case abandon:
				return p.abandonMove(cmd.Context(), from)
			case to.IsZero():
				return config.Usagef("to: name the store to move to, a file or a URL")
			case from.String() == to.String(), config.SameFile(from.Path, to.Path):
				return config.Usagef("to: %s is the store itself", to)
			}
			if err := namedStore("to", to).CheckStore(); err != nil { // before the old store is opened
				return err
			}
			serve.TuneRuntime(p.env)
			return p.move(cmd.Context(), from, to)
		},
	}
	p.bindQuiet(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print a JSON object")
	cmd.Flags().Var(&from, "from", "the `store` to move: a file, or the URL of a PostgreSQL database")
	cmd.Flags().Var(&to, "to", "the `store` to move to")
	cmd.Flags().BoolVar(&abandon, "abandon", false, "reopen the old store")
	return cmd
}

// moveFacts is the output of move --json.
type moveFacts struct {
	From   string `json:"from"` // without its password
	To     string `json:"to"`   // without its password
	Plants int64  `json:"plants"`
	Digest string `json:"digest"`
	Tokens int    `json:"tokens"`
}

// abandonFacts is the output of move --abandon --json.
type abandonFacts struct {
	From      string `json:"from"` // without its password
	Abandoned bool   `json:"abandoned"`
}

func (p *program) move(ctx context.Context, fromAddress, toAddress config.StoreAddress) (err error) {
	from, err := p.openMoveSource(ctx, fromAddress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	bar := p.NewProgress(0)
	bar.Plants(0, -1)
	facts := moveFacts{From: fromAddress.Absolute(), To: toAddress.Absolute()}
	r, err := move.Run(ctx, move.Config{
		From: from, FromName: facts.From, ToName: facts.To, By: p.operator(),
		OpenTo: func(ctx context.Context) (move.Destination, error) {
			return serve.OpenMoveDestination(ctx, namedStore("to", toAddress), p.commandLog())
		},
		Progress: func(plants int64) { bar.Plants(plants, -1) },
		Compare:  func() { bar.Info("comparing the new store with the old one") },
	})
	bar.End()
	if errors.Is(interruption(ctx, err), terminal.ErrInterrupted) {
		fmt.Fprintln(p.Stderr, "interrupted: the old store is as before, and there is no new one")
		return terminal.ErrInterrupted
	}
	if err != nil {
		return fmt.Errorf("move: %w", err)
	}
	facts.Plants, facts.Digest, facts.Tokens = r.Plants, fmt.Sprintf("%x", r.Digests), r.Tokens
	return p.result(facts, "both stores have %d plants with digest %s, and %d tokens\n"+
		"no server starts on the old store; start servers on the new one\n", facts.Plants, facts.Digest, facts.Tokens)
}

func (p *program) abandonMove(ctx context.Context, address config.StoreAddress) error {
	s, err := p.openMoveSource(ctx, address)
	if err != nil {
		return err
	}
	if err := errors.Join(move.Reopen(ctx, s, p.operator()), s.Close()); err != nil {
		return fmt.Errorf("abandon the move of %s: %w", address.Absolute(), err)
	}
	return p.result(abandonFacts{address.Absolute(), true}, "%s is open again\n", terminal.Printable(address.Absolute()))
}

func (p *program) openMoveSource(ctx context.Context, address config.StoreAddress) (move.Source, error) {
	s, err := serve.OpenMoveSource(ctx, namedStore("from", address), p.commandLog())
	return s, interruption(ctx, err)
}

// namedStore returns the settings of a store that a flag of move names.
func namedStore(flag string, address config.StoreAddress) *config.Settings {
	return &config.Settings{DB: address, Sources: map[string]string{"db": "--" + flag}}
}
