package move_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/move"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// TestMove shows that a move copies everything, that no server and no command opens the old store after it, and that
// the new one works.
func TestMove(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, from, to place) {
		from.use(t, func(e storetest.Engine) { seed(t, e, 10_500) }) // more than a chunk
		want := contentOf(t, from)
		var seen []int64
		got, err := run(t.Context(), t, from, to, func(c *move.Config) {
			c.Progress = func(plants int64) { seen = append(seen, plants) }
		})
		must(t, err)
		equal(t, "progress", seen, []int64{10_000, 10_506})
		equal(t, "tokens", got.Tokens, 6)

		old, moved := contentOf(t, from), contentOf(t, to)
		totals, err := store.Sum(rowsOf(moved))
		must(t, err)
		equal(t, "result", got.Totals, totals)
		for name, c := range map[string]*content{"old": &old, "new": &moved} {
			last := len(want.Audit)
			if len(c.Audit) != last+1 || !strings.Contains(c.Audit[last].Text, `"store.move"`) {
				t.Errorf("the audit log of the %s store: %+v", name, c.Audit)
			}
			c.Audit = c.Audit[:last]
		}
		equal(t, "the new store", moved, want)
		want.MovedTo = "the new one"
		equal(t, "the old store", old, want)

		const movedAway = "the store was moved to the new one; use that store"
		if _, err := from.open(t.Context()); err == nil || !strings.Contains(err.Error(), movedAway) {
			t.Errorf("a server of the old store: %v, want %s", err, movedAway)
		}
		if _, err := run(t.Context(), t, from, to, nil); err == nil || !strings.Contains(err.Error(), movedAway) {
			t.Errorf("the same move again: %v, want %s", err, movedAway)
		}
		third := inFile(t)
		_, err = run(t.Context(), t, from, third, func(c *move.Config) { c.ToName = "a third one" })
		if err == nil || !strings.Contains(err.Error(), movedAway) {
			t.Errorf("a move to a third store: %v, want %s", err, movedAway)
		}
		to.use(t, func(e storetest.Engine) {
			insert(t, e, plants(60_000, 1)...)
			id, err := e.CreateToken(t.Context(), auth.Token{Name: "new", CreatedAt: start}, audit.Origin{})
			must(t, err)
			if id <= 7 {
				t.Errorf("a new token has the id %d, which an old one has or had", id)
			}
			taken, err := e.TakeDeliveries(t.Context(), nil, store.Claim{Most: map[int64]int{1: 9}, Lease: time.Hour})
			must(t, err)
			equal(t, "deliveries that no old server has claimed", len(taken), 5)
		})

		s, err := from.source(t.Context())
		must(t, err)
		must(t, errors.Join(move.Reopen(t.Context(), s, audit.Origin{}), s.Close()))
		from.use(t, func(e storetest.Engine) { insert(t, e, plants(60_000, 1)...) })
	})
}

func rowsOf(c content) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		for _, r := range c.Plants {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// TestLargePlants shows that a move copies plants of which one exceeds a chunk.
func TestLargePlants(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, from, to place) {
		from.use(t, func(e storetest.Engine) {
			for id, letter := range []string{"x", "y", "z"} {
				large := plant.NewPlant{ID: int64(id), Plant: plant.Plant{Name: strings.Repeat(letter, store.PlantsBytes)}}
				insert(t, e, store.Create{Plant: large, At: start})
			}
		})
		want := contentOf(t, from).Plants
		_, err := run(t.Context(), t, from, to, nil)
		must(t, err)
		equal(t, "plants", contentOf(t, to).Plants, want)
	})
}

// TestInUse shows that a move refuses a store that a server uses, which goes on.
func TestInUse(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(testing.TB) place{"file": inFile, "postgres": inPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := where(t)
			p.use(t, func(e storetest.Engine) {
				stop := poll(t, e)
				s, err := p.source(t.Context())
				if err == nil {
					must(t, s.Close())
				}
				if !errors.Is(err, store.ErrInUse) {
					t.Errorf("the store of a server: %v, want %v", err, store.ErrInUse)
				}
				stop()
				insert(t, e, plants(1, 1)...)
			})
		})
	}
}

// poll polls a store until stop is called, as a server does.
func poll(t *testing.T, e storetest.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			_, err = e.State(t.Context())
		}
		done <- err
	}()
	return func() {
		cancel()
		must(t, <-done)
	}
}

// TestNobodyBeside shows that neither a server nor a second move can use the stores of a move while it runs.
func TestNobodyBeside(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, from, to place) {
		from.use(t, func(e storetest.Engine) { insert(t, e, plants(1, 10)...) })
		beside := 0
		_, err := run(t.Context(), t, from, to, func(c *move.Config) {
			c.Progress = func(int64) {
				beside++
				_, errServer := from.open(t.Context())
				if !errors.Is(errServer, store.ErrMoveRunning) {
					t.Errorf("a server of the old store: %v, want %v", errServer, store.ErrMoveRunning)
				}
				_, errSource := from.source(t.Context())
				_, errDestination := to.destination(t.Context())
				for _, err := range []error{errSource, errDestination} {
					if !errors.Is(err, store.ErrMoveRunning) && !errors.Is(err, store.ErrInUse) {
						t.Errorf("a second move: %v, want %v or %v", err, store.ErrMoveRunning, store.ErrInUse)
					}
				}
			}
		})
		must(t, err)
		equal(t, "moves with others beside them", beside, 1)
	})
}

// TestNotNew shows that a move refuses a store with content as the new one, and leaves both as they are.
func TestNotNew(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(t *testing.T, e storetest.Engine){
		"plants": func(t *testing.T, e storetest.Engine) { insert(t, e, plants(7, 1)...) },
		"tokens": func(t *testing.T, e storetest.Engine) {
			must(t, e.PutTokens(t.Context(), []auth.Token{{ID: 1, Name: "own", CreatedAt: start}}))
		},
		"an audit log": func(t *testing.T, e storetest.Engine) {
			must(t, e.AppendAudit(t.Context(), audit.Event{Time: start, Action: audit.ServerStart}))
		},
	} {
		for kind, where := range map[string]func(testing.TB) place{"file": inFile, "postgres": inPostgres} {
			t.Run(fmt.Sprintf("%s with %s", kind, name), func(t *testing.T) {
				t.Parallel()
				from, to := inFile(t), where(t)
				from.use(t, func(e storetest.Engine) { insert(t, e, plants(1, 5)...) })
				to.use(t, func(e storetest.Engine) { fill(t, e) })
				before := contentOf(t, to)
				if _, err := run(t.Context(), t, from, to, nil); !errors.Is(err, store.ErrNotNew) {
					t.Errorf("got %v, want %v", err, store.ErrNotNew)
				}
				equal(t, "the new store", contentOf(t, to), before)
				from.use(t, func(e storetest.Engine) { insert(t, e, plants(10, 1)...) })
			})
		}
	}
}

// faulty is a new store that loses or changes what it should store, or ends the move before a call.
type faulty struct {
	move.Destination

	plants  func([]store.Row) []store.Row
	tokens  func([]auth.Token) []auth.Token
	publish func() error
}

func (f faulty) PutPlants(ctx context.Context, rows []store.Row) error {
	return f.Destination.PutPlants(ctx, f.plants(rows))
}

func (f faulty) PutTokens(ctx context.Context, tokens []auth.Token) error {
	return f.Destination.PutTokens(ctx, f.tokens(tokens))
}

func (f faulty) Publish(ctx context.Context) error {
	if err := f.publish(); err != nil {
		return err
	}
	return f.Destination.Publish(ctx)
}

func same[T any](all []T) []T { return all }

// fail runs a move to a faulty store.
func fail(t *testing.T, from, to place, change func(*faulty)) error {
	t.Helper()
	_, err := run(t.Context(), t, from, to, func(c *move.Config) {
		c.OpenTo = func(ctx context.Context) (move.Destination, error) {
			d, err := to.destination(ctx)
			f := faulty{
				Destination: d, plants: same[store.Row], tokens: same[auth.Token], publish: func() error { return nil },
			}
			change(&f)
			return f, err
		}
	})
	return err
}

// TestFaulty shows that a move detects a new store that loses or changes what it stores. It then leaves no new store,
// and the old one as it was, so that the next move works.
func TestFaulty(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, from, to place) {
		from.use(t, func(e storetest.Engine) { seed(t, e, 20) })
		before := contentOf(t, from)
		for want, change := range map[string]func(*faulty){
			"the stores differ: the old one has 26 plants": func(f *faulty) {
				f.plants = func(rows []store.Row) []store.Row { return rows[1:] }
			},
			"and the new one has 26 with ": func(f *faulty) {
				f.plants = func(rows []store.Row) []store.Row {
					rows[3].Name += "x"
					return rows
				}
			},
			"the new one does not have the tokens of the old one": func(f *faulty) {
				f.tokens = func(tokens []auth.Token) []auth.Token {
					tokens = append([]auth.Token(nil), tokens...)
					tokens[2].RevokedAt = start.Add(time.Hour)
					return tokens
				}
			},
		} {
			if err := fail(t, from, to, change); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		equal(t, "the old store", contentOf(t, from), before)
		_, err := run(t.Context(), t, from, to, nil)
		must(t, err)
		equal(t, "the new plants", contentOf(t, to).Plants, before.Plants)
	})
}

// TestDamaged shows that a move stops at a plant that is damaged in the old store, or missing there.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"UPDATE plants SET name = 'x' WHERE id = 3": "the old one: plant 3 is damaged in the store",
		"DELETE FROM plants WHERE id = 3":           "the old one: the store is damaged: it has 4 plants with ",
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			from, to := inFile(t), inFile(t)
			from.use(t, func(e storetest.Engine) { insert(t, e, plants(1, 5)...) })
			from.run(t, sql)
			if _, err := run(t.Context(), t, from, to, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			from.use(t, func(e storetest.Engine) { insert(t, e, plants(10, 1)...) })
			to.use(t, func(e storetest.Engine) { insert(t, e, plants(10, 1)...) })
		})
	}
}

// TestInterrupted shows that a move that is interrupted leaves no new store, and the old one as it was.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, from, to place) {
		from.use(t, func(e storetest.Engine) { seed(t, e, 10_500) })
		before := contentOf(t, from)
		for name, interrupt := range map[string]func(c *move.Config, cancel func()){
			"while it copies":   func(c *move.Config, cancel func()) { c.Progress = func(int64) { cancel() } },
			"while it compares": func(c *move.Config, cancel func()) { c.Compare = cancel },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := run(ctx, t, from, to, func(c *move.Config) { interrupt(c, cancel) })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want %v", name, err, context.Canceled)
			}
		}
		equal(t, "the old store", contentOf(t, from), before)
		_, err := run(t.Context(), t, from, to, nil)
		must(t, err)
	})
}

// TestUnpublished shows the state between the last two steps of a move: no server starts on the old store, and the same
// move works again.
func TestUnpublished(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, from, to place) {
		from.use(t, func(e storetest.Engine) { seed(t, e, 20) })
		err := fail(t, from, to, func(f *faulty) { f.publish = func() error { return errors.New("no disk") } })
		const want = "the old store may be marked as moved, and the new one may be missing: " +
			"run the same command again: no disk"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := from.open(t.Context()); err == nil {
			t.Error("a server opened the old store")
		}
		_, err = run(t.Context(), t, from, to, nil)
		must(t, err)
		moved, old := contentOf(t, to), contentOf(t, from)
		equal(t, "the new plants", moved.Plants, old.Plants)
		equal(t, "the last store", moved.MovedTo, "")
	})
}

// TestStaleServer shows that PostgreSQL refuses the changes of a server that did not answer while a move looked for
// servers: a plant, a repeated one, a large batch, a token and an audit entry.
func TestStaleServer(t *testing.T) {
	t.Parallel()
	from, to := inPostgres(t), inFile(t)
	from.use(t, func(e storetest.Engine) {
		insert(t, e, plants(1, 10)...)
		_, err := run(t.Context(), t, from, to, nil) // finds no server, because e does not poll
		must(t, err)
		_, errNew := e.Insert(t.Context(), plants(11, 1))
		_, errReplay := e.Insert(t.Context(), plants(1, 1))
		_, errMany := e.Insert(t.Context(), plants(11, 2000))
		_, errToken := e.CreateToken(t.Context(), auth.Token{Name: "new", CreatedAt: start}, audit.Origin{})
		errAudit := e.AppendAudit(t.Context(), audit.Event{Time: start, Action: audit.ServerStart})
		for what, err := range map[string]error{
			"plant": errNew, "replay": errReplay, "batch": errMany, "token": errToken, "entry": errAudit,
			"probe": e.Probe(t.Context()),
		} {
			if err == nil || !strings.Contains(err.Error(), "plantstore_moved") {
				t.Errorf("%s: %v, want an error of the constraint plantstore_moved", what, err)
			}
		}
	})
}
