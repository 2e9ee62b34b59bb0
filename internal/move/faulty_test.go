package move_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/move"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// hanging is a destination that does not answer once the source is read-only.
type hanging struct {
	storetest.Engine
	source storetest.Engine
}

func (h hanging) PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error {
	if state, err := h.source.State(ctx); err != nil || state.Move.Phase != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Engine.PutAudit(ctx, anchor, rows)
}

// counting is a destination that counts the tokens of each call.
type counting struct {
	storetest.Engine
	tokens *[]int
}

func (c counting) PutTokens(ctx context.Context, tokens []auth.Token) error {
	*c.tokens = append(*c.tokens, len(tokens))
	return c.Engine.PutTokens(ctx, tokens)
}

// TestTokensInPause shows that a move copies tokens in parts, and in the write pause only those that have changed.
func TestTokensInPause(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to := fromPlace(t), toPlace(t)
		seed(t, from)
		many := make([]auth.Token, store.ChangeMax)
		for i := range many {
			many[i] = auth.NewRevokedJWT("https://issuer.example", fmt.Sprint(i), start)
			many[i].ID = int64(10 + i)
		}
		must(t, from.PutTokens(t.Context(), many))
		var tokens []int
		c := config(from, counting{to, &tokens})
		c.Announce = func() {
			_, err := from.RevokeTokens(t.Context(), store.Selector{ID: 1}, start, audit.Origin{})
			must(t, err)
		}
		_, err := move.Run(t.Context(), c)
		must(t, err)
		equal(t, "tokens of each call", tokens, []int{store.ChangeMax, 3, 1})
		equal(t, "tokens of the new store", contentOf(t, to).Tokens, contentOf(t, from).Tokens)
	})
}

// TestPauseEnds shows that the write pause ends although the destination does not
// answer, and when the move is interrupted.
func TestPauseEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		interrupt bool
		want      string
	}{
		"by itself":   {false, "could not move the last plants within 10s, so the old store is served as before"},
		"interrupted": {true, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // without a wait for the 10 s of a write pause
				from, to := inFile(t)(t), inFile(t)(t)
				insert(t, from, plants(1, 5)...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := config(from, hanging{to, from})
				if row.interrupt {
					c.Announce = cancel
				}
				_, err := move.Run(ctx, c)
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("got %v, want %q", err, row.want)
				}
				insert(t, from, plants(10, 1)...)
				_, err = move.Run(t.Context(), config(from, to))
				must(t, err)
				equal(t, "plants in the new store", len(contentOf(t, to).Plants), 6)
			})
		})
	}
}

// closed is a store whose Reopen fails while it has a move state.
type closed struct{ storetest.Engine }

func (s closed) Reopen(ctx context.Context) error {
	if state, err := s.State(ctx); err != nil || state.Move.Phase != "" {
		return errors.New("cannot reopen")
	}
	return s.Engine.Reopen(ctx)
}

// TestNotReopened shows the error of a move that cannot reopen its source. The next
// move reopens it: servers store plants while it copies.
func TestNotReopened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // without a wait for the 10 s in which a move tries to reopen the store
		from, to := inFile(t)(t), inFile(t)(t)
		insert(t, from, plants(1, 5)...)
		empty := func(store.Totals) store.Totals { return store.Totals{} }
		_, err := move.Run(t.Context(), config(closed{from}, faulty{Engine: to, totals: empty}))
		if !errors.Is(err, move.ErrNotReopened) {
			t.Fatalf("got %v, want %v", err, move.ErrNotReopened)
		}
		moving := store.MoveState{Phase: store.Moving, Other: "the new one"}
		equal(t, "the move state of the old store", contentOf(t, from).Move, moving)
		c := config(from, to)
		once := sync.OnceFunc(func() { insert(t, from, plants(10, 1)...) })
		c.Progress = func(int64, int64) { once() }
		_, err = move.Run(t.Context(), c)
		must(t, err)
		equal(t, "plants in the new store", len(contentOf(t, to).Plants), 6)
	})
}

// killing is a store that ends the mover's goroutine after a number of calls that
// change it or the other store.
type killing struct {
	storetest.Engine
	remaining *int // calls; both stores share it
}

func (k killing) change(call func() error) error {
	if *k.remaining--; *k.remaining < 0 {
		runtime.Goexit()
	}
	return call()
}

func (k killing) SetMoveState(ctx context.Context, before, after store.MoveState) error {
	return k.change(func() error { return k.Engine.SetMoveState(ctx, before, after) })
}

func (k killing) Reopen(ctx context.Context) error {
	return k.change(func() error { return k.Engine.Reopen(ctx) })
}

func (k killing) StartCapture(ctx context.Context) error {
	return k.change(func() error { return k.Engine.StartCapture(ctx) })
}

func (k killing) PutTokens(ctx context.Context, tokens []auth.Token) error {
	return k.change(func() error { return k.Engine.PutTokens(ctx, tokens) })
}

func (k killing) Insert(ctx context.Context, batch []store.Create) (outcomes []store.Outcome, err error) {
	err = k.change(func() error {
		outcomes, err = k.Engine.Insert(ctx, batch)
		return err
	})
	return outcomes, err
}

// TestKilled shows that a move that is killed at any step can run again to its end,
// and that at no moment both stores store plants.
func TestKilled(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to := fromPlace(t), toPlace(t)
		seed(t, from)
		insert(t, from, plants(1, 50)...)
		complete := false
		for calls := 0; !complete; calls++ {
			if calls > 30 {
				t.Fatal("the move is not complete after 30 calls")
			}
			remaining, process := calls, make(chan struct{})
			go func() { // ends here or in change
				defer close(process)
				if _, err := move.Run(t.Context(), config(killing{from, &remaining}, killing{to, &remaining})); err != nil {
					t.Errorf("after %d calls: %v", calls, err)
				}
			}()
			<-process
			before, after := contentOf(t, from), contentOf(t, to)
			if before.Move.Phase == "" && after.Move.Phase == "" && len(after.Tokens) > 0 {
				t.Errorf("after %d calls: both stores store plants", calls)
			}
			complete = before.Move == movedAway && after.Move.Phase == ""
			if !complete && before.Move.Phase == "" {
				insert(t, from, plants(int64(1000+calls), 1)...) // as its server would
			}
		}
		want := contentOf(t, fromPlace(t))
		want.Move = store.MoveState{}
		equal(t, "the new store", contentOf(t, toPlace(t)), want)
	})
}

// faulty is a store that loses, changes or miscounts plants.
type faulty struct {
	storetest.Engine
	insert func(batch []store.Create) []store.Create
	plants func(rows []store.Row) []store.Row
	totals func(t store.Totals) store.Totals
}

func (f faulty) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if f.insert != nil {
		batch = f.insert(batch)
	}
	return f.Engine.Insert(ctx, batch)
}

func (f faulty) PlantsByID(ctx context.Context, ids []int64) ([]store.Row, error) {
	rows, err := f.Engine.PlantsByID(ctx, ids)
	if f.plants != nil {
		rows = f.plants(rows)
	}
	return rows, err
}

func (f faulty) Totals(ctx context.Context) (store.Totals, bool, error) {
	totals, known, err := f.Engine.Totals(ctx)
	if f.totals != nil {
		totals = f.totals(totals)
	}
	return totals, known, err
}

func dropOne[T any](rows []T) []T { return rows[:max(0, len(rows)-1)] }

func changeOne(rows []store.Create) []store.Create {
	rows = append([]store.Create(nil), rows...)
	rows[0].Plant.Name += "x"
	return rows
}

// TestFaulty shows that a move detects a store that loses, changes or miscounts
// plants, and reopens the source.
func TestFaulty(t *testing.T) {
	t.Parallel()
	miscount := func(t store.Totals) store.Totals { t.Digests++; return t }
	for name, row := range map[string]struct {
		from, to faulty
		want     string
	}{
		"the new one loses a plant": {
			to:   faulty{insert: dropOne[store.Create]},
			want: "the new one lost plant 10 and 0 more that were just stored",
		},
		"the new one changes a plant": {
			to: faulty{insert: changeOne},
			want: "the new store has other data: " +
				"plant 1 of the new one is not in the old one, or not with the same content",
		},
		"the new one counts differently": {
			to:   faulty{totals: miscount},
			want: "the stores differ: the new one counts 11 plants",
		},
		"the old one counts differently": {
			from: faulty{totals: miscount},
			want: "the stores differ: the old one counts 11 plants",
		},
		"the old one loses a captured plant": {
			from: faulty{plants: dropOne[store.Row]},
			want: "the old one lost plants during the move: 1 of 1 captured plants are missing or damaged",
		},
		"the new one loses a captured plant": {
			to:   faulty{plants: dropOne[store.Row]},
			want: "the new one lost plant 11",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.from.Engine, row.to.Engine = inFile(t)(t), inFile(t)(t)
			insert(t, row.from, plants(1, 10)...)
			c := config(row.from, row.to)
			once := sync.OnceFunc(func() { insert(t, row.from.Engine, plants(11, 1)...) })
			c.Progress = func(int64, int64) { once() }
			if _, err := move.Run(t.Context(), c); err == nil || !strings.Contains(fmt.Sprint(err), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
			insert(t, row.from.Engine, plants(100, 1)...)
		})
	}
}
