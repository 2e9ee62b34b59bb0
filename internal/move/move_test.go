package move_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/move"
	"plantstore/internal/plant"
	"plantstore/internal/store"
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
		id, err := toPlace(t).CreateToken(t.Context(), auth.Token{Name: "new", CreatedAt: start}, audit.Origin{})
		must(t, err)
		if id <= 4 {
			t.Errorf("a new token has the id %d, which an old one has or had", id)
		}

		if _, err := move.Run(t.Context(), c); !errors.Is(err, move.ErrMoved) {
			t.Errorf("a second move: %v, want %v", err, move.ErrMoved)
		}
		must(t, move.Abandon(t.Context(), from, audit.Origin{}))
		insert(t, fromPlace(t), plants(70_000, 1)...)
	})
}

// TestLarge shows that a move copies more plants than a chunk has, and plants so
// large that a read returns a single one.
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
				for n := 0; ; n++ { // ids before, between and after the existing ones
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
			_, err := fromPlace(t).RevokeTokens(t.Context(), store.Selector{Name: "first"}, start, audit.Origin{})
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
		want, moved := contentOf(t, from), contentOf(t, to2)
		equal(t, "plants in the new store", len(moved.Plants), sum)
		want.Move = store.MoveState{}
		equal(t, "the new store", moved, want)
		if moved.Tokens[0].RevokedAt != start {
			t.Errorf("the revoked token: %+v", moved.Tokens[0])
		}
	})
}

// TestDifferent shows that a move refuses a destination with data of its own, leaves
// it unchanged, and reopens the source.
func TestDifferent(t *testing.T) {
	t.Parallel()
	other := create(3, "plant 3", plant.Tagged("tag 3"))
	other.By = 1
	late := plants(3, 1)[0]
	late.At = start.AddDate(1, 0, 0)
	for name, existing := range map[string]any{
		"a plant before all":    create(-10, "plant", plant.Tag{}),
		"a plant between":       create(1000, "plant", plant.Tag{}),
		"a plant after all":     create(math.MaxInt64, "plant", plant.Tag{}),
		"another name":          create(3, "plant three", plant.Tag{}),
		"another tag":           create(3, "plant 3", plant.Tagged("")),
		"another creator":       other,
		"another time":          late,
		"a token of its own":    auth.Token{Name: "own", Hash: auth.HashOf("own"), CreatedAt: start},
		"state of another move": store.MoveState{Phase: store.Filling, Other: "a third one"},
	} {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", resumed: ", resumed), func(t *testing.T) {
				t.Parallel()
				from, to := inFile(t)(t), inFile(t)(t)
				insert(t, from, plants(1, 5)...)
				insert(t, from, plants(2000, 5)...)
				want := move.ErrDifferent
				switch existing := existing.(type) {
				case store.Create:
					insert(t, to, existing)
				case auth.Token:
					_, err := to.CreateToken(t.Context(), existing, audit.Origin{})
					must(t, err)
				case store.MoveState:
					if resumed {
						t.Skip("a store has one move state")
					}
					must(t, to.SetMoveState(t.Context(), store.MoveState{}, existing))
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
				equal(t, "the move state of the new store", after.Move, before.Move)
				if !resumed {
					equal(t, "the new store", after, before)
				}
				insert(t, from, plants(3000, 1)...) // it is open
			})
		}
	}
}

// TestTwoMovers shows that the lock of a move keeps other moves, and Abandon, from
// both of its stores.
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
			if err := move.Abandon(t.Context(), second, audit.Origin{}); !errors.Is(err, store.ErrMoveRunning) {
				t.Errorf("Abandon of a move that runs: %v, want %v", err, store.ErrMoveRunning)
			}
		})
		c.Announce = func() { once() }
		_, err := move.Run(t.Context(), c)
		must(t, err)
		equal(t, "the move state of the old store", contentOf(t, from).Move, movedAway)
		equal(t, "plants in the new store", len(contentOf(t, to).Plants), 100)
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
			_, err := move.Run(t.Context(), config(s, p(t)))
			if !errors.Is(err, store.ErrMoveRunning) || !strings.HasSuffix(err.Error(), "or it is the same store") {
				t.Errorf("got %v, want %v; or it is the same store", err, store.ErrMoveRunning)
			}
			insert(t, s, plants(1, 1)...)
		})
	}
}

// TestHalfFilled shows that the destination of an interrupted move can be neither a
// source nor abandoned.
func TestHalfFilled(t *testing.T) {
	t.Parallel()
	half, to := inFile(t)(t), inFile(t)(t)
	must(t, half.SetMoveState(t.Context(), store.MoveState{}, filled))
	if _, err := move.Run(t.Context(), config(half, to)); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Run: %v, want %v", err, store.ErrReadOnly)
	}
	if err := move.Abandon(t.Context(), half, audit.Origin{}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Abandon: %v, want %v", err, store.ErrReadOnly)
	}
}

// TestInterrupted shows that an interrupted move reopens its source, and that the
// next move copies only the missing plants.
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
		equal(t, "the move state of the new store", half.Move, filled)
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

// TestIdentities shows that a move copies subjects, the plants that they created, revoked subjects and revoked JWTs.
func TestIdentities(t *testing.T) {
	t.Parallel()
	const issuer = "https://login.example"
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to := fromPlace(t), toPlace(t)
		shop, err := from.PutSubject(t.Context(), auth.NewSubject(issuer, "shop", start), 100)
		must(t, err)
		revoked := auth.NewSubject(issuer, "other", start)
		revoked.RevokedAt = start
		_, err = from.RevokeIdentity(t.Context(), revoked, 100, audit.Origin{})
		must(t, err)
		jwt := auth.NewRevokedJWT(issuer, "a", time.Now())
		_, err = from.RevokeIdentity(t.Context(), jwt, 100, audit.Origin{})
		must(t, err)
		created := plants(1, 1)
		created[0].By = shop.ID
		insert(t, from, created...)
		before := contentOf(t, from)
		_, err = move.Run(t.Context(), config(from, to))
		must(t, err)
		after := contentOf(t, toPlace(t))
		equal(t, "the new store", after, before)
		equal(t, "identities", len(after.Tokens), 3)
	})
}
