package writepath_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// stub is an engine with faults that a real one does not produce on demand.
type stub struct {
	writepath.Engine // nil: a call that no test expects panics

	insert  func(ctx context.Context, batch []store.Create) error
	outcome func(c store.Create) store.Outcome     // nil: every plant is created
	byID    func(ids []int64) ([]store.Row, error) // nil: none is stored

	mu       sync.Mutex // guards the fields below
	tokens   []auth.Token
	version  int64
	polls    int           // calls of State
	pollTime time.Duration // how long each call of State takes
	err      error         // State returns it
	useErr   error         // MarkUsed returns it
	uses     []auth.Use
	usesMost int // most of one call of MarkUsed
}

func (s *stub) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if s.insert != nil {
		if err := s.insert(ctx, batch); err != nil {
			return nil, err
		}
	}
	outcomes := make([]store.Outcome, len(batch))
	if s.outcome != nil {
		for i := range batch {
			outcomes[i] = s.outcome(batch[i])
		}
	}
	return outcomes, nil
}

func (s *stub) PlantsByID(_ context.Context, ids []int64, _ int) ([]store.Row, error) {
	if s.byID == nil {
		return nil, nil
	}
	return s.byID(ids)
}

// Probe is an Insert of a plant with the id 0.
func (s *stub) Probe(ctx context.Context) error {
	_, err := s.Insert(ctx, []store.Create{{}})
	return err
}

func (s *stub) State(ctx context.Context) (store.State, error) {
	s.mu.Lock()
	s.polls++
	wait := s.pollTime
	s.mu.Unlock()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return store.State{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.State{TokenChanges: s.version}, s.err
}

func (*stub) Durability() store.Durability { return store.Durability{} }

func (s *stub) Tokens(context.Context) ([]auth.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens, nil
}

func (s *stub) MarkUsed(_ context.Context, uses []auth.Use) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses = append(s.uses, uses...)
	s.usesMost = max(s.usesMost, len(uses))
	return s.useErr
}

func (s *stub) change(f func(s *stub)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
	s.version++
}

var limits = writepath.Limits{QueueMax: 100, Bytes: 10_000, CommitTimeout: 5 * time.Second, AnswerTimeout: time.Hour}

func mustNew(t testing.TB, e writepath.Engine, l writepath.Limits) *writepath.Service {
	t.Helper()
	s, err := writepath.New(t.Context(), writepath.Config{Engine: e, Limits: l, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestZeroConfig creates plants in a store with an engine and no other option, and shows that it logs and counts a
// commit that fails.
func TestZeroConfig(t *testing.T) {
	t.Parallel()
	var failing error
	engine := &stub{insert: func(ctx context.Context, _ []store.Create) error {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) < 5*time.Second {
			t.Errorf("the commit's deadline is %v, want one in about 10s", at)
		}
		return failing
	}}
	s, err := writepath.New(t.Context(), writepath.Config{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	if replayed, err := s.Create(nil, auth.Principal{}, newPlant(1)); replayed || err != nil {
		t.Errorf("Create: %t, %v", replayed, err)
	}
	failing = store.ErrFull
	if _, err := s.Create(nil, auth.Principal{}, newPlant(1)); codeOf(err) != plant.CodeStoreFull {
		t.Errorf("Create on a full disk: %v", err)
	}
	s.Close()
}

func newPlant(id int64) plant.NewPlant {
	return plant.NewPlant{ID: id, Plant: plant.Plant{Name: fmt.Sprint("plant ", id)}}
}

// codeOf returns the code of a *plant.Error, and 0 for any other error.
func codeOf(err error) plant.Code {
	var refusal *plant.Error
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return 0
}

// TestGroupCommit blocks a commit until many creates are pending: the next commit has all of them, in their order, and
// each create gets its own outcome.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var batches [][]store.Create
		e := &stub{insert: func(_ context.Context, batch []store.Create) error {
			if len(batches) == 0 {
				<-release
			}
			batches = append(batches, batch)
			return nil
		}}
		e.outcome = func(c store.Create) store.Outcome {
			switch c.Plant.ID % 3 {
			case 1:
				return store.Outcome{Replayed: true}
			case 2:
				return store.Outcome{Conflict: &plant.Error{Code: plant.CodeDifferentName, Message: fmt.Sprint(c.Plant.ID)}}
			default:
				return store.Outcome{}
			}
		}
		s := mustNew(t, e, limits)
		by := auth.Principal{TokenID: 42}
		var wg sync.WaitGroup
		for id := range int64(51) {
			wg.Go(func() {
				replayed, err := s.Create(nil, by, newPlant(id))
				if want := id%3 == 1; err == nil && replayed != want {
					t.Errorf("plant %d: replayed %v, want %v", id, replayed, want)
				}
				if id%3 == 2 && (err == nil || err.Error() != fmt.Sprint(id)) {
					t.Errorf("plant %d: %v, want its own refusal", id, err)
				} else if id%3 != 2 && err != nil {
					t.Errorf("plant %d: %v", id, err)
				}
			})
			synctest.Wait() // until it is pending or in a commit
		}
		close(release)
		wg.Wait()
		s.Close()
		if len(batches) != 2 || len(batches[0]) != 1 || len(batches[1]) != 50 {
			t.Fatalf("%d batches, want one of 1 and one of 50", len(batches))
		}
		for i, c := range batches[1] {
			if c.Plant != newPlant(int64(i+1)) || c.By != by.TokenID || c.At.IsZero() {
				t.Errorf("index %d of the second batch: %+v", i, c)
			}
		}
	})
}

func TestQueueFull(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits writepath.Limits
		fits   int64
	}{
		{"plants", writepath.Limits{QueueMax: 3, Bytes: 10_000}, 3},
		{"bytes", writepath.Limits{QueueMax: 100, Bytes: 15}, 2}, // "plant 1" has 7
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				s := mustNew(t, &stub{insert: func(context.Context, []store.Create) error {
					<-release
					return nil
				}}, test.limits)
				var wg sync.WaitGroup
				for id := range test.fits + 1 { // one is in a commit
					wg.Go(func() {
						if _, err := s.Create(nil, auth.Principal{}, newPlant(id)); err != nil {
							t.Errorf("plant %d: %v", id, err)
						}
					})
					synctest.Wait()
				}
				if _, err := s.Create(nil, auth.Principal{}, newPlant(9)); codeOf(err) != plant.CodeQueueFull {
					t.Errorf("one more: %v, want queue full", err)
				}
				close(release)
				wg.Wait()
				if _, err := s.Create(nil, auth.Principal{}, newPlant(9)); err != nil {
					t.Errorf("after the commit: %v", err)
				}
				s.Close()
			})
		})
	}
}

// TestCommitDeadline shows that a commit has its own deadline.
func TestCommitDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustNew(t, &stub{insert: func(ctx context.Context, _ []store.Create) error {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", store.ErrBusy, ctx.Err())
		}}, limits)
		start := time.Now()
		_, err := s.Create(nil, auth.Principal{}, newPlant(1))
		if took := time.Since(start); codeOf(err) != plant.CodeStoreUnavailable || took != limits.CommitTimeout {
			t.Errorf("%v after %v, want unavailable after %v", err, took, limits.CommitTimeout)
		}
		s.Close()
	})
}

// TestAnswerTimeout shows that a create returns in time while a commit hangs.
func TestAnswerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := limits
		l.AnswerTimeout = 20 * time.Second
		s := mustNew(t, &stub{insert: func(context.Context, []store.Create) error { <-release; return nil }}, l)
		start := time.Now()
		_, err := s.Create(nil, auth.Principal{}, newPlant(1))
		if took := time.Since(start); codeOf(err) != plant.CodeOutcomeUnknown || took != l.AnswerTimeout {
			t.Errorf("%v after %v, want outcome unknown after %v", err, took, l.AnswerTimeout)
		}
		if err := s.Ready(); err == nil || err.Error() != "a commit has run for over 20 s" {
			t.Errorf("Ready while the commit hangs: %v", err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Create(nil, auth.Principal{}, newPlant(2)); codeOf(err) != plant.CodeOutcomeUnknown {
				t.Errorf("the first of the next batch: %v", err)
			}
		})
		wg.Wait() // for the timeout of that create
		if _, err := s.Create(nil, auth.Principal{}, newPlant(3)); codeOf(err) != plant.CodeStoreUnavailable {
			t.Errorf("create after the timeout of the pending batch: %v", err)
		}
		close(release)
		synctest.Wait()
		if _, err := s.Create(nil, auth.Principal{}, newPlant(4)); err != nil {
			t.Errorf("after the commit: %v", err)
		}
		if err := s.Ready(); err != nil {
			t.Errorf("Ready after the commit: %v", err)
		}
		s.Close()
	})
}

func TestEngineErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want plant.Code
	}{
		{errors.New("secret detail"), plant.CodeStoreUnavailable},
		{fmt.Errorf("%w: secret detail", store.ErrBusy), plant.CodeStoreUnavailable},
		{fmt.Errorf("%w: secret detail", store.ErrFull), plant.CodeStoreFull},
		{fmt.Errorf("%w: secret detail", store.ErrOutcomeUnknown), plant.CodeOutcomeUnknown},
		{fmt.Errorf("%w: %w: secret detail", store.ErrOutcomeUnknown, store.ErrFull), plant.CodeOutcomeUnknown},
	} {
		failing := test.err
		s := mustNew(t, &stub{insert: func(context.Context, []store.Create) error { return failing }}, limits)
		_, err := s.Create(nil, auth.Principal{}, newPlant(1))
		if codeOf(err) != test.want || err.Error() == "" || errors.Is(err, failing) {
			t.Errorf("%v: got %v, want code %d without the cause", test.err, err, test.want)
		}
		failing = nil
		if _, err := s.Create(nil, auth.Principal{}, newPlant(1)); err != nil {
			t.Errorf("the create after %v: %v, want nil", test.err, err)
		}
		s.Close()
	}
}

// TestReplaysOnFullDisk has replays, a conflict and new plants share a batch that the disk has no space for: only the
// new plants are refused. A failure of the second Insert, which may be a failed sync, acknowledges nothing.
func TestReplaysOnFullDisk(t *testing.T) {
	t.Parallel()
	const fresh, other = 1000, 150 // ids from fresh on are new, and other has another content
	stored := func(c store.Create) bool { return c.Plant.ID < fresh }
	for name, test := range map[string]struct {
		second, read error
		want         plant.Code // for a replay
	}{
		"replays":     {},
		"full again":  {second: store.ErrFull, want: plant.CodeStoreFull},
		"failed sync": {second: errors.Join(store.ErrOutcomeUnknown, store.ErrBroken), want: plant.CodeOutcomeUnknown},
		"failed read": {read: errors.New("reset"), want: plant.CodeStoreFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				sizes := []int{}
				e := &stub{insert: func(_ context.Context, batch []store.Create) error {
					<-release
					sizes = append(sizes, len(batch))
					for _, c := range batch {
						if len(sizes) > 1 && !stored(c) {
							return fmt.Errorf("COMMIT: %w", store.ErrFull)
						}
					}
					if len(sizes) == 3 { // the first replays of the full batch
						return test.second
					}
					return nil
				}}
				e.outcome = func(c store.Create) store.Outcome {
					if c.Plant.ID == other {
						return store.Outcome{Conflict: plant.Errorf(plant.CodeDifferentName, "other")}
					}
					return store.Outcome{Replayed: stored(c)}
				}
				e.byID = func(ids []int64) (rows []store.Row, err error) {
					for _, id := range ids {
						if id < fresh {
							rows = append(rows, store.Row{NewPlant: plant.NewPlant{ID: id}})
						}
					}
					return rows, test.read
				}
				s := mustNew(t, e, writepath.Limits{})
				defer s.Close()
				var creates sync.WaitGroup
				create := func(id int64, wantReplayed bool, want plant.Code) {
					creates.Go(func() {
						replayed, err := s.Create(nil, auth.Principal{}, newPlant(id))
						if codeOf(err) != want || replayed != wantReplayed {
							t.Errorf("plant %d: replayed %t, %v; want %t, %d", id, replayed, err, wantReplayed, want)
						}
					})
					synctest.Wait()
				}
				create(0, true, 0) // holds the commit while the others wait for the next one
				unanswered := plant.CodeStoreFull
				if test.want == plant.CodeOutcomeUnknown {
					unanswered = test.want
				}
				for id := int64(100); id < 200; id++ {
					if id == other && test.want == 0 {
						create(id, false, plant.CodeDifferentName)
					} else {
						create(id, test.want == 0, test.want)
					}
					if id%10 == 0 {
						create(id+fresh, false, unanswered)
					}
				}
				close(release)
				creates.Wait()
				if sizes[1] != 110 {
					t.Errorf("the batches have %v creates, want 110 in the second", sizes)
				}
			})
		})
	}
}

// TestBroken shows that the store writes nothing after ErrBroken: it refuses pending and later creates, and closes the
// channel of Broken.
func TestBroken(t *testing.T) {
	for _, test := range []struct {
		err  error
		want plant.Code
	}{
		{fmt.Errorf("%w: disk", store.ErrBroken), plant.CodeStoreUnavailable},
		{fmt.Errorf("%w: %w: disk", store.ErrOutcomeUnknown, store.ErrBroken), plant.CodeOutcomeUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			release, inserts := make(chan struct{}), 0
			s := mustNew(t, &stub{insert: func(context.Context, []store.Create) error {
				inserts++
				<-release
				return test.err
			}}, limits)
			var wg sync.WaitGroup
			for id, want := range []plant.Code{test.want, plant.CodeStoreUnavailable, plant.CodeStoreUnavailable} {
				wg.Go(func() {
					if _, err := s.Create(nil, auth.Principal{}, newPlant(int64(id))); codeOf(err) != want {
						t.Errorf("plant %d: %v, want code %d", id, err, want)
					}
				})
				synctest.Wait()
			}
			if err := s.Ready(); err != nil {
				t.Errorf("Ready before: %v", err)
			}
			close(release)
			<-s.Broken()
			wg.Wait()
			if _, err := s.Create(nil, auth.Principal{}, newPlant(9)); codeOf(err) != plant.CodeStoreUnavailable {
				t.Errorf("after: %v", err)
			}
			if err := s.Ready(); err == nil {
				t.Error("Ready after: nil")
			}
			s.Close()
			if inserts != 1 {
				t.Errorf("%d inserts, want none after ErrBroken", inserts)
			}
		})
	}
}

// TestClose shows that Close waits for the pending creates and that the store refuses later ones.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, stored := make(chan struct{}), 0
		s := mustNew(t, &stub{insert: func(_ context.Context, batch []store.Create) error {
			<-release
			stored += len(batch)
			return nil
		}}, limits)
		var wg sync.WaitGroup
		for id := range int64(10) {
			wg.Go(func() {
				if _, err := s.Create(nil, auth.Principal{}, newPlant(id)); err != nil {
					t.Errorf("plant %d: %v", id, err)
				}
			})
		}
		synctest.Wait()
		wg.Go(s.Close)
		synctest.Wait()
		if _, err := s.Create(nil, auth.Principal{}, newPlant(99)); codeOf(err) != plant.CodeShuttingDown {
			t.Errorf("while closing: %v", err)
		}
		if err := s.Ready(); err == nil {
			t.Error("Ready while closing: nil")
		}
		close(release)
		wg.Wait()
		s.Close() // the second call does nothing
		if stored != 10 {
			t.Errorf("stored %d, want 10", stored)
		}
	})
}

// TestRealEngine has many clients create the same plants with a real engine: each plant is created exactly once.
func TestRealEngine(t *testing.T) {
	t.Parallel()
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "p.db"), Server: true})
	if err != nil {
		t.Fatal(err)
	}
	s := mustNew(t, engine, writepath.Limits{CommitTimeout: time.Minute, AnswerTimeout: time.Hour})
	const clients, plants = 20, 50
	created := make([][plants]bool, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range plants {
				id := (i + c*7) % plants
				replayed, err := s.Create(nil, auth.Principal{}, newPlant(int64(id)))
				if err != nil {
					t.Errorf("client %d, plant %d: %v", c, id, err)
				}
				created[c][id] = !replayed
			}
		})
	}
	wg.Wait()
	s.Close()
	for id := range plants {
		n := 0
		for c := range clients {
			if created[c][id] {
				n++
			}
		}
		if n != 1 {
			t.Errorf("plant %d was created %d times", id, n)
		}
	}
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}

// TestConcurrentCommits blocks as many commits as may run. Later creates wait until one of the commits ends.
func TestConcurrentCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, sizes := 0, 0, map[int]int{} // guarded by mu
		release := make(chan struct{})
		e := &stub{insert: func(_ context.Context, batch []store.Create) error {
			mu.Lock()
			running++
			most = max(most, running)
			sizes[len(batch)]++
			mu.Unlock()
			<-release
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}}
		s, err := writepath.New(t.Context(), writepath.Config{Engine: e, Commits: 3, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for id := range int64(13) {
			wg.Go(func() {
				if _, err := s.Create(nil, auth.Principal{}, newPlant(id)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(commitsLong) //nolint:forbidigo // the bubble's clock, not a wait
		if err := s.Ready(); err == nil {
			t.Error("Ready while three commits hang: nil")
		}
		close(release)
		wg.Wait()
		s.Close()
		mu.Lock()
		defer mu.Unlock()
		if most != 3 || sizes[1] != 3 || sizes[10] != 1 {
			t.Errorf("%d concurrent commits, by size: %v; want 3 with one plant, then one with 10", most, sizes)
		}
	})
}

// commitsLong is the run time of a commit from which on the store is not ready.
const commitsLong = 20 * time.Second

// TestNotOwner shows that a server that another one replaces stores nothing, also by its engine, names the reason to
// clients, counts no failed commit, and goes on when the reason ends.
func TestNotOwner(t *testing.T) {
	t.Parallel()
	var reason error
	may := func() error { return reason }
	e, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: filepath.Join(t.TempDir(), "plants.db"), Server: true, MayWrite: may,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := writepath.New(t.Context(), writepath.Config{Engine: e, MayAccept: may})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	create := func() error {
		_, err := s.Create(nil, auth.Principal{}, newPlant(1))
		return err
	}
	for _, test := range []struct {
		reason error
		want   string
	}{
		{fmt.Errorf("%w of the server on host-a", store.ErrStandby), "this server is a standby"},
		{fmt.Errorf("%w: not renewed", store.ErrNotOwner), "a standby may have replaced this server"},
	} {
		reason = test.reason
		want := "the plant was not stored because " + test.want + "; make changes at the server that accepts plants"
		if err := create(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := s.Ready(); !errors.Is(err, reason) {
			t.Errorf("got %v, want %v", err, reason)
		}
		_, err := s.Import(t.Context(), []store.Create{{Plant: newPlant(2), At: time.Now()}})
		for change, err := range map[string]error{
			"Import": err, "Probe": e.Probe(t.Context()), "MarkUsed": e.MarkUsed(t.Context(), []auth.Use{{TokenID: 1}}),
		} {
			if !errors.Is(err, reason) {
				t.Errorf("%s: got %v, want %v", change, err, reason)
			}
		}
	}
	if n := s.Numbers().CommitsFailed; n != 0 {
		t.Errorf("%d commits failed, want 0", n)
	}
	reason = nil
	if err := create(); err != nil {
		t.Error(err)
	}
}
