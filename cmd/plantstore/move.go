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
		Short: "Move all plants and tokens to another store, also while servers run",
		Long: `Move all plants, with their times and creators, and all tokens to another store.
Each store is a file or the URL of a PostgreSQL database. The new store must be
empty, or the destination of an interrupted move. No server may run on it yet.

Servers may run on the old store; the command also copies the plants that clients
create during the move. At the end the old store becomes read-only: its servers
respond with 503 and Retry-After, and no server starts on it again. When the
command has ended, start servers on the new store and point clients at them.

The command reads every copied plant back and compares it. After a failure or an
interruption, servers of the old store continue as before; run the same command
again to continue. --abandon reopens the old store after a move that was killed,
or that you do not want; plants that only the new store has are lost then.

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
	From     string `json:"from"` // without its password
	To       string `json:"to"`   // without its password
	Plants   int64  `json:"plants"`
	Digest   string `json:"digest"`
	Tokens   int    `json:"tokens"`
	Copied   int64  `json:"copied"`
	Captured int64  `json:"captured"`
	PauseMS  int64  `json:"pause_ms"`
}

// abandonFacts is the output of move --abandon --json.
type abandonFacts struct {
	From      string `json:"from"` // without its password
	Abandoned bool   `json:"abandoned"`
}

func (p *program) move(ctx context.Context, fromAddress, toAddress config.StoreAddress) (err error) {
	from, err := p.openNamed(ctx, "from", fromAddress, existing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := p.openNamed(ctx, "to", toAddress, serve.EngineOptions{Server: true}) // so that no server starts on it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()

	bar := p.NewProgress(0)
	bar.Plants(0, -1)
	r, err := move.Run(ctx, move.Config{
		From: from, To: to,
		FromName: fromAddress.Absolute(), ToName: toAddress.Absolute(), By: p.operator(),
		Progress: bar.Plants,
		Announce: func() { bar.Info("copying the last plants; the old store is read-only") },
	})
	bar.End()
	switch {
	case errors.Is(err, move.ErrNotReopened):
		return fmt.Errorf("move: %w", err)
	case errors.Is(interruption(ctx, err), terminal.ErrInterrupted):
		fmt.Fprintln(p.Stderr, "interrupted: the old store is served as before; run the same command again to continue")
		return terminal.ErrInterrupted
	case err != nil:
		return fmt.Errorf("move: %w", err)
	}
	if r.Unaudited != nil {
		fmt.Fprintln(p.Stderr, "warning: the move is complete, but an audit log has no entry about its end:",
			terminal.Printable(r.Unaudited.Error()))
	}
	facts := moveFacts{
		From: fromAddress.Absolute(), To: toAddress.Absolute(),
		Plants: r.Plants, Digest: fmt.Sprintf("%x", r.Digests), Tokens: r.Tokens,
		Copied: r.Copied, Captured: r.Captured, PauseMS: r.Pause.Milliseconds(),
	}
	return p.result(facts, "both stores have %d plants with digest %s, and %d tokens; "+
		"copied %d, %d of them after the first pass\n"+
		"the old store is read-only; start servers on the new one\nwrite pause: %d ms\n",
		facts.Plants, facts.Digest, facts.Tokens, facts.Copied, facts.Captured, facts.PauseMS)
}

func (p *program) abandonMove(ctx context.Context, from config.StoreAddress) error {
	s, err := p.openNamed(ctx, "from", from, existing)
	if err != nil {
		return err
	}
	if err := errors.Join(move.Abandon(ctx, s, p.operator()), s.Close()); err != nil {
		return fmt.Errorf("abandon the move of %s: %w", from.Absolute(), err)
	}
	return p.result(abandonFacts{from.Absolute(), true}, "%s is open again\n", terminal.Printable(from.Absolute()))
}

// namedStore returns the settings of a store that a flag of move names.
func namedStore(flag string, address config.StoreAddress) *config.Settings {
	return &config.Settings{DB: address, Sources: map[string]string{"db": "--" + flag}}
}

// openNamed opens the store that a flag of move names.
func (p *program) openNamed(
	ctx context.Context, flag string, address config.StoreAddress, o serve.EngineOptions,
) (serve.Engine, error) {
	engine, err := p.openCommand(ctx, namedStore(flag, address), o)
	return engine, interruption(ctx, err)
}
