package move_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"plantstore/internal/auth"
	"plantstore/internal/move"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// TestMove shows that a move copies everything, that the old store is read-only
// after it, and that the new one is not.
func TestMove(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to := fromPlace(t), toPlace(t)
		seed(t, from)
		insert(t, from, plants(1, 230)...) // more than two chunks
		before := contentOf(t, from)

		c := config(from, to)
		var seen []int64
		announced := 0
		c.Progress = func(plants, all int64) {
			if len(seen) > 0 && plants < seen[len(seen)-1] {
				t.Errorf("progress: %d plants after %d", plants, seen[len(seen)-1])
			}
			if _, known, _ := from.Totals(t.Context()); known && all != 234 || !known && all != -1 {
				t.Errorf("progress: of %d plants", all)
			}
			seen = append(seen, plants)
		}
		c.Announce = func() { announced++ }
		got, err := move.RunInChunks(t.Context(), c, 100)
		must(t, err)
		if got.Pause <= 0 {
			t.Errorf("pause: %s", got.Pause)
		}
		got.Pause = 0
		equal(t, "result", got, move.Result{Totals: before.totals(), Tokens: 3, Copied: 234})
		if len(seen) < 4 || seen[len(seen)-1] != 234 || announced != 1 {
			t.Errorf("progress: %v, announced %d times", seen, announced)
		}

		after := before
		after.Move = movedAway
		equal(t, "the old store", contentOf(t, fromPlace(t)), after)
		equal(t, "the new store", contentOf(t, toPlace(t)), before)
		if _, err := fromPlace(t).Insert(t.Context(), plants(60_000, 1)); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("a plant for the old store: %v, want %v", err, store.ErrReadOnly)
		}
		insert(t, toPlace(t), plants(60_000, 1)...)
		id, err := toPlace(t).CreateToken(t.Context(), auth.Token{Name: "new", CreatedAt: begun})
		must(t, err)
		if id <= 4 {
			t.Errorf("a new token has the id %d, which an old one has or had", id)
		}

		if _, err := move.Run(t.Context(), c); !errors.Is(err, move.ErrMoved) {
			t.Errorf("a second move: %v, want %v", err, move.ErrMoved)
		}
		must(t, move.Abandon(t.Context(), from))
		insert(t, fromPlace(t), plants(70_000, 1)...)
	})
}

// TestLarge shows that a move copies more plants than a chunk holds, and plants
// of which a read returns one alone.
func TestLarge(t *testing.T) {
	t.Parallel()
	for name, places := range map[string][2]func(testing.TB) place{
		"file to postgres": {inFile, inPostgres},
		"postgres to file": {inPostgres, inFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := places[0](t)(t), places[1](t)(t)
			insert(t, from, plants(1, 10_500)...)
			insert(t, from,
				create(50_000, strings.Repeat("x", store.PlantsBytes), plant.Tag{}),
				create(50_001, strings.Repeat("y", store.PlantsBytes), plant.Tag{}))
			want := contentOf(t, from).totals()
			got, err := move.Run(t.Context(), config(from, to))
			must(t, err)
			got.Pause = 0
			equal(t, "result", got, move.Result{Totals: want, Copied: 10_502})
			equal(t, "the new store", contentOf(t, to).totals(), want)
		})
	}
}

// TestOnline shows that the new store has every plant that is acknowledged during
// a move, and the revocation of a token.
func TestOnline(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to, to2 := fromPlace(t), toPlace(t), toPlace(t)
		seed(t, from)
		insert(t, from, plants(1, 1_200)...)
		first := len(contentOf(t, from).Plants)

		const writers, chunk, beforeEnd = 3, 100, 40 // each writer stores so many before the end of the move
		var wg, stored sync.WaitGroup
		stored.Add(writers)
		acknowledged := make([]int, writers)
		begin := make(chan struct{})
		for w := range writers {
			s := fromPlace(t)
			wg.Go(func() {
				storedEnough := sync.OnceFunc(stored.Done)
				defer storedEnough()
				<-begin
				for n := 0; ; n++ { // ids before, between and after those that are there
					id := int64(n*writers+w+1) * 20_000 * int64(1-2*(n%2))
					_, err := s.Insert(t.Context(), []store.Create{create(id, "online", plant.Tag{})})
					if errors.Is(err, store.ErrReadOnly) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if acknowledged[w]++; acknowledged[w] == beforeEnd {
						storedEnough()
					}
				}
			})
		}
		c := config(from, to)
		once := sync.OnceFunc(func() {
			close(begin)
			_, err := fromPlace(t).RevokeTokens(t.Context(), store.Selector{Name: "first"}, begun)
			must(t, err)
			stored.Wait()
		})
		c.Progress = func(int64, int64) { once() }
		got, err := move.RunInChunks(t.Context(), c, chunk)
		wg.Wait()
		must(t, err)

		sum := first
		for w, n := range acknowledged {
			t.Logf("writer %d: %d plants", w, n)
			sum += n
		}
		t.Logf("%d were captured, pause %s", got.Captured, got.Pause)
		if least := int64(writers * beforeEnd / 2); got.Captured < least { // the negative ids
			t.Errorf("%d plants were captured, want at least %d", got.Captured, least)
		}
		old, new := contentOf(t, from), contentOf(t, to2)
		equal(t, "plants in the new store", len(new.Plants), sum)
		old.Move = store.MoveState{}
		equal(t, "the new store", new, old)
		if new.Tokens[0].RevokedAt != begun {
			t.Errorf("the revoked token: %+v", new.Tokens[0])
		}
	})
}

// A new store that has something of its own is left as it is, and the old one goes
// on.
func TestDifferent(t *testing.T) {
	t.Parallel()
	other := create(3, "plant 3", plant.Tagged("tag 3"))
	other.By = 1
	late := plants(3, 1)[0]
	late.At = begun.AddDate(1, 0, 0)
	for name, there := range map[string]any{
		"a plant before all":   create(-10, "plant", plant.Tag{}),
		"a plant between":      create(1000, "plant", plant.Tag{}),
		"a plant after all":    create(math.MaxInt64, "plant", plant.Tag{}),
		"another name":         create(3, "plant three", plant.Tag{}),
		"another tag":          create(3, "plant 3", plant.Tagged("")),
		"another creator":      other,
		"another time":         late,
		"a token of its own":   auth.Token{Name: "own", Hash: auth.HashOf("own"), CreatedAt: begun},
		"held for another one": store.MoveState{Phase: store.Filling, Other: "a third one"},
	} {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", resumed: ", resumed), func(t *testing.T) {
				t.Parallel()
				from, to := inFile(t)(t), inFile(t)(t)
				insert(t, from, plants(1, 5)...)
				insert(t, from, plants(2000, 5)...)
				want := move.ErrDifferent
				switch there := there.(type) {
				case store.Create:
					insert(t, to, there)
				case auth.Token:
					_, err := to.CreateToken(t.Context(), there)
					must(t, err)
				case store.MoveState:
					if resumed {
						t.Skip("it cannot be both")
					}
					must(t, to.SetMoveState(t.Context(), store.MoveState{}, there))
					want = store.ErrReadOnly
				}
				if resumed {
					must(t, to.SetMoveState(t.Context(), store.MoveState{}, filled))
				}
				before := contentOf(t, to)
				if _, err := move.Run(t.Context(), config(from, to)); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				after := contentOf(t, to)
				equal(t, "how the new store is held", after.Move, before.Move)
				if !resumed {
					equal(t, "the new store", after, before)
				}
				insert(t, from, plants(3000, 1)...) // it goes on
			})
		}
	}
}

// Two moves of one store do not meet, nor does taking one back with one that runs.
func TestTwoMovers(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to, second, third := fromPlace(t), toPlace(t), fromPlace(t), inFile(t)(t)
		insert(t, from, plants(1, 100)...)
		c := config(from, to)
		once := sync.OnceFunc(func() {
			if _, err := move.Run(t.Context(), config(second, third)); !errors.Is(err, store.ErrMoveRunning) {
				t.Errorf("a second move of the old store: %v, want %v", err, store.ErrMoveRunning)
			}
			if _, err := move.Run(t.Context(), config(third, toPlace(t))); !errors.Is(err, store.ErrMoveRunning) {
				t.Errorf("a second move to the new store: %v, want %v", err, store.ErrMoveRunning)
			}
			if err := move.Abandon(t.Context(), second); !errors.Is(err, store.ErrMoveRunning) {
				t.Errorf("to abandon a move that runs: %v, want %v", err, store.ErrMoveRunning)
			}
		})
		c.Announce = func() { once() }
		_, err := move.Run(t.Context(), c)
		must(t, err)
		equal(t, "the old store is held", contentOf(t, from).Move, movedAway)
		equal(t, "plants in the new store", len(contentOf(t, to).Plants), 100)
	})
}

// hanging is a store that does not answer once the other one is held.
type hanging struct {
	storetest.Engine
	old storetest.Engine
}

func (h hanging) PutTokens(ctx context.Context, tokens []auth.Token) error {
	if state, err := h.old.State(ctx); err != nil || state.Move.Phase != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Engine.PutTokens(ctx, tokens)
}

// An old store is not held for long by a new one that does not answer, nor by
// one that was interrupted while it was held.
func TestPauseEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		interrupt bool
		want      string
	}{
		"by itself":   {false, "the last plants could not be moved within 10s, and so the old store goes on"},
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

// stubborn is a store that cannot be released.
type stubborn struct{ storetest.Engine }

func (s stubborn) Reopen(ctx context.Context) error {
	if state, err := s.State(ctx); err != nil || state.Move.Phase != "" {
		return errors.New("it cannot be released")
	}
	return s.Engine.Reopen(ctx)
}

// Who cannot take a hold back says so, and the next move does it: its servers
// take plants while it copies.
func TestNotReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // without a wait for the 10 s in which a move tries to reopen the store
		from, to := inFile(t)(t), inFile(t)(t)
		insert(t, from, plants(1, 5)...)
		if _, err := move.Run(t.Context(), config(stubborn{from}, lying{Engine: to, totals: func(store.Totals) store.Totals { return store.Totals{} }})); !errors.Is(err, move.ErrNotReopened) {
			t.Fatalf("got %v, want %v", err, move.ErrNotReopened)
		}
		equal(t, "the old store is held", contentOf(t, from).Move, store.MoveState{Phase: store.Moving, Other: "the new one"})
		c := config(from, to)
		once := sync.OnceFunc(func() { insert(t, from, plants(10, 1)...) })
		c.Progress = func(int64, int64) { once() }
		_, err := move.Run(t.Context(), c)
		must(t, err)
		equal(t, "plants in the new store", len(contentOf(t, to).Plants), 6)
	})
}

func TestSameStore(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(testing.TB) place{"file": inFile, "postgres": inPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := where(t)
			s := p(t)
			seed(t, s)
			if _, err := move.Run(t.Context(), config(s, p(t))); !errors.Is(err, store.ErrMoveRunning) || !strings.HasSuffix(err.Error(), "or it is the same store") {
				t.Errorf("got %v, want to hear that it is the same store", err)
			}
			insert(t, s, plants(1, 1)...)
		})
	}
}

// A store that is being filled cannot be moved on, and cannot be opened by
// abandoning what fills it.
func TestHalfFilled(t *testing.T) {
	t.Parallel()
	half, to := inFile(t)(t), inFile(t)(t)
	must(t, half.SetMoveState(t.Context(), store.MoveState{}, filled))
	if _, err := move.Run(t.Context(), config(half, to)); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Run: %v, want %v", err, store.ErrReadOnly)
	}
	if err := move.Abandon(t.Context(), half); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Abandon: %v, want %v", err, store.ErrReadOnly)
	}
}

// An interrupted move lets the old store go on, and the next one goes on with
// what is there.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to := fromPlace(t), toPlace(t)
		seed(t, from)
		insert(t, from, plants(1, 250)...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := config(from, to)
		c.Progress = func(plants, _ int64) {
			if plants >= 100 {
				cancel()
			}
		}
		if _, err := move.RunInChunks(ctx, c, 100); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
		insert(t, fromPlace(t), plants(30_000, 10)...)
		half := contentOf(t, to)
		equal(t, "the new store is held", half.Move, filled)
		if n := len(half.Plants); n < 100 {
			t.Errorf("%d plants in the new store", n)
		}
		got, err := move.RunInChunks(t.Context(), config(from, to), 100)
		must(t, err)
		equal(t, "copied", int(got.Copied), 264-len(half.Plants))
		want := contentOf(t, from)
		want.Move = store.MoveState{}
		equal(t, "the new store", contentOf(t, toPlace(t)), want)
	})
}

// dying is a store whose mover dies after so many calls on both that change
// something.
type dying struct {
	storetest.Engine
	left *int
}

func (d dying) alive(call func() error) error {
	if *d.left--; *d.left < 0 {
		runtime.Goexit()
	}
	return call()
}

func (d dying) SetMoveState(ctx context.Context, before, why store.MoveState) error {
	return d.alive(func() error { return d.Engine.SetMoveState(ctx, before, why) })
}

func (d dying) Reopen(ctx context.Context) error {
	return d.alive(func() error { return d.Engine.Reopen(ctx) })
}

func (d dying) StartCapture(ctx context.Context) error {
	return d.alive(func() error { return d.Engine.StartCapture(ctx) })
}

func (d dying) StopCapture(ctx context.Context) error {
	return d.alive(func() error { return d.Engine.StopCapture(ctx) })
}

func (d dying) PutTokens(ctx context.Context, tokens []auth.Token) error {
	return d.alive(func() error { return d.Engine.PutTokens(ctx, tokens) })
}

func (d dying) Insert(ctx context.Context, batch []store.Create) (outcomes []store.Outcome, err error) {
	err = d.alive(func() error {
		outcomes, err = d.Engine.Insert(ctx, batch)
		return err
	})
	return outcomes, err
}

// A move that is killed at any step can be run again to the end, and at no moment
// do both stores take plants.
func TestKilled(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to := fromPlace(t), toPlace(t)
		seed(t, from)
		insert(t, from, plants(1, 50)...)
		ended := false
		for calls := 0; !ended; calls++ {
			if calls > 30 {
				t.Fatal("it does not end")
			}
			left, process := calls, make(chan struct{})
			go func() { // ends here or in alive
				defer close(process)
				if _, err := move.Run(t.Context(), config(dying{from, &left}, dying{to, &left})); err != nil {
					t.Errorf("after %d calls: %v", calls, err)
				}
			}()
			<-process
			old, new := contentOf(t, from), contentOf(t, to)
			if old.Move.Phase == "" && new.Move.Phase == "" && len(new.Tokens) > 0 {
				t.Errorf("after %d calls: both stores take plants", calls)
			}
			ended = old.Move == movedAway && new.Move.Phase == ""
			if !ended && old.Move.Phase == "" {
				insert(t, from, plants(int64(1000+calls), 1)...) // as its server would
			}
		}
		old, new := contentOf(t, fromPlace(t)), contentOf(t, toPlace(t))
		old.Move = store.MoveState{}
		equal(t, "the new store", new, old)
	})
}

// lying is a store that does not do what it says.
type lying struct {
	storetest.Engine
	insert func(batch []store.Create) []store.Create
	plants func(rows []store.Row) []store.Row
	totals func(t store.Totals) store.Totals
}

func (l lying) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if l.insert != nil {
		batch = l.insert(batch)
	}
	return l.Engine.Insert(ctx, batch)
}

func (l lying) PlantsByID(ctx context.Context, ids []int64) ([]store.Row, error) {
	rows, err := l.Engine.PlantsByID(ctx, ids)
	if l.plants != nil {
		rows = l.plants(rows)
	}
	return rows, err
}

func (l lying) Totals(ctx context.Context) (store.Totals, bool, error) {
	totals, known, err := l.Engine.Totals(ctx)
	if l.totals != nil {
		totals = l.totals(totals)
	}
	return totals, known, err
}

func dropOne[T any](rows []T) []T { return rows[:max(0, len(rows)-1)] }

func changeOne(rows []store.Create) []store.Create {
	rows = append([]store.Create(nil), rows...)
	rows[0].Plant.Name += "x"
	return rows
}

// A store that loses or changes plants is found out, and the old one goes on.
func TestLying(t *testing.T) {
	t.Parallel()
	miscount := func(t store.Totals) store.Totals { t.Digests++; return t }
	for name, row := range map[string]struct {
		from, to lying
		want     string
	}{
		"the new one loses a plant":         {to: lying{insert: dropOne[store.Create]}, want: "the new one has not kept plant 10, and 0 more that it took"},
		"the new one changes a plant":       {to: lying{insert: changeOne}, want: "the new store has something of its own: the new one has a plant 1 that the old one has not, or not like that"},
		"the new one counts differently":    {to: lying{totals: miscount}, want: "the stores differ: the new one counts 11 plants"},
		"the old one counts differently":    {from: lying{totals: miscount}, want: "the stores differ: the old one counts 11 plants"},
		"the old one loses what it noted":   {from: lying{plants: dropOne[store.Row]}, want: "the old one has lost plants while it was moved: 1 of 1 that were created are not there"},
		"the new one loses what came later": {to: lying{plants: dropOne[store.Row]}, want: "the new one has not kept plant 11"},
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
