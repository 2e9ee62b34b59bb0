package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/move"
)

func newMove(p *program) *cobra.Command {
	var from, to storeAddress
	var abandon, asJSON bool
	cmd := &cobra.Command{
		Use:   "move --from STORE --to STORE",
		Short: "Move everything to another store, also while the old one is served",
		Long: `Move all plants, with their times and creators, and all tokens from one store to
another: a file or the URL of a PostgreSQL database, either way. The new store
must be empty, or be left from a move that was interrupted, and nobody may serve
it yet.

The old store may be served meanwhile. What is created there is copied, too, and
only for the last of it the old store is held: from then on it answers 503 with
Retry-After, and it is never served again. Start servers on the new store when
this command has ended, and lead clients there.

Everything that is copied is read back and compared. If the command fails or is
interrupted, the old store goes on as before, and the same command goes on with
the move. --abandon takes back a move that was killed, or is not to count: then
what only the new store has is in no other.

On PostgreSQL move as the role that owns the tables. Put its password into the
file that PGPASSFILE names, or into PGPASSWORD.`,
		Example: `  plantstore move --from plantstore.db --to 'postgres://plantstore@db.example/plants?sslmode=verify-full'
  plantstore move --from plantstore.db --abandon`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case from.isZero():
				return usagef("from: name the store to move, a file or a URL")
			case abandon && !to.isZero():
				return usagef("to: --abandon only needs --from")
			case abandon:
				return p.abandonMove(cmd.Context(), from, asJSON)
			case to.isZero():
				return usagef("to: name the store to move to, a file or a URL")
			case from.String() == to.String(), sameFile(from.path, to.path):
				return usagef("to: %s is the store itself", to)
			}
			if err := namedStore("to", to).checkStore(); err != nil { // before the old store is opened
				return err
			}
			p.tuneRuntime()
			return p.move(cmd.Context(), from, to, asJSON)
		},
	}
	p.bindQuiet(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print a JSON object")
	cmd.Flags().Var(&from, "from", "the `store` to move: a file, or the URL of a PostgreSQL database")
	cmd.Flags().Var(&to, "to", "the `store` to move to")
	cmd.Flags().BoolVar(&abandon, "abandon", false, "make the old store take plants again")
	return cmd
}

// moveFacts is what move --json prints.
type moveFacts struct {
	From     string `json:"from"` // without its password
	To       string `json:"to"`   // without its password
	Plants   int64  `json:"plants"`
	Digest   string `json:"digest"`
	Tokens   int    `json:"tokens"`
	Copied   int64  `json:"copied"`
	Followed int64  `json:"followed"`
	PauseMS  int64  `json:"pause_ms"`
}

// abandonFacts is what move --abandon --json prints.
type abandonFacts struct {
	From      string `json:"from"` // without its password
	Abandoned bool   `json:"abandoned"`
}

func (p *program) move(ctx context.Context, fromAddress, toAddress storeAddress, asJSON bool) (err error) {
	from, err := p.openMovable(ctx, "from", fromAddress, engineOptions{mustExist: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := p.openMovable(ctx, "to", toAddress, engineOptions{server: true}) // so that nobody else serves it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()

	bar := p.newProgress(0)
	bar.plants(0, -1)
	r, err := move.Run(ctx, move.Config{
		From: from, To: to,
		FromName: fromAddress.absolute(), ToName: toAddress.absolute(),
		Progress: bar.plants,
		Announce: func() { bar.note("all is copied but the last plants; for these the old store is held now") },
	})
	bar.end()
	switch {
	case errors.Is(err, move.ErrNotReopened):
		return fmt.Errorf("move: %w", err)
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(p.stderr, "interrupted: the old store takes plants as before; run the same command again to go on")
		return errInterrupted
	case err != nil:
		return fmt.Errorf("move: %w", err)
	}
	if r.Leftover != nil {
		fmt.Fprintln(p.stderr, "what the old store was followed by could not be taken away, and does no harm:", printable(r.Leftover.Error()))
	}
	if asJSON {
		return writeJSON(p.stdout, moveFacts{
			From: fromAddress.absolute(), To: toAddress.absolute(), Plants: r.Plants, Digest: fmt.Sprintf("%x", r.Digests), Tokens: r.Tokens,
			Copied: r.Copied, Followed: r.Captured, PauseMS: r.Pause.Milliseconds(),
		})
	}
	_, err = fmt.Fprintf(p.stdout, "both stores have %d plants with digest %x, and %d tokens; copied %d, %d of them after the first pass\nthe old store takes no more, and the new one can be served; from the one to the other it was %s\n",
		r.Plants, r.Digests, r.Tokens, r.Copied, r.Captured, r.Pause.Round(time.Millisecond))
	return err
}

func (p *program) abandonMove(ctx context.Context, from storeAddress, asJSON bool) error {
	s, err := p.openMovable(ctx, "from", from, engineOptions{mustExist: true})
	if err != nil {
		return err
	}
	if err := errors.Join(move.Abandon(ctx, s), s.Close()); err != nil {
		return fmt.Errorf("abandon the move of %s: %w", from.absolute(), err)
	}
	if asJSON {
		return writeJSON(p.stdout, abandonFacts{from.absolute(), true})
	}
	_, err = fmt.Fprintf(p.stdout, "%s takes plants\n", printable(from.absolute()))
	return err
}

// namedStore returns the settings of a store that a flag of move names.
func namedStore(flag string, address storeAddress) *settings {
	return &settings{db: address, sources: map[string]string{"db": "--" + flag}}
}

// openMovable opens the store that a flag of move names.
func (p *program) openMovable(ctx context.Context, flag string, address storeAddress, o engineOptions) (anyEngine, error) {
	engine, err := p.openCommand(ctx, namedStore(flag, address), o)
	if err != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	return engine, err
}
