package admin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
	"plantstore/internal/writepath"
)

// A page of a tag ends after its time, also without a plant.
func TestPageOfRareTag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, err := admin.New(admin.Config{Engine: slow{}})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		page, err := service.Plants(t.Context(), admin.PageQuery{Limit: 10, Tag: plant.Tagged("rare")})
		if err != nil || len(page.Plants) != 0 || page.Next != "AQAAAAAAAAAF" {
			t.Errorf("got %+v, %v", page, err)
		}
	})
}

// A ranked search reports hits as it finds them, and again when it has found all: first the names that begin with the
// part, then the others, each by ascending id.
func TestRankedSearch(t *testing.T) {
	t.Parallel()
	plants := []store.Create{
		create(1, "Tuberosa", plant.Tag{}), create(2, "Rosa b", plant.Tag{}), create(3, "x rosa", plant.Tag{}),
		create(4, "ROSA d", plant.Tagged("shrub")), create(5, "Quercus", plant.Tag{}),
	}
	service, _ := open(t, admin.Config{}, plants...)
	for _, test := range []struct {
		name, cursor string
		tag          plant.Tag
		first, then  []int64 // hits before and after Again
		end          admin.SearchEnd
	}{
		{"rosa", "", plant.Tag{}, []int64{1, 2}, []int64{2, 4}, admin.SearchEnd{Hits: 4, Next: "2"}},
		{"rosa", "2", plant.Tag{}, []int64{1, 2}, []int64{1, 3}, admin.SearchEnd{Hits: 4}},
		{"rosa", "4", plant.Tag{}, []int64{1, 2}, nil, admin.SearchEnd{Hits: 4}},
		{"tub", "", plant.Tag{}, []int64{1}, nil, admin.SearchEnd{Hits: 1}},
		{"", "", plant.Tagged("shrub"), []int64{4}, nil, admin.SearchEnd{Hits: 1}},
	} {
		var first, then []int64
		again := false
		q := admin.SearchQuery{Name: test.name, Tag: test.tag, Cursor: test.cursor, Limit: 2, Ranked: true}
		end, err := service.Search(t.Context(), q, func(p admin.SearchProgress) error {
			again = again || p.Again
			for _, hit := range p.Hits {
				if again {
					then = append(then, hit.ID)
				} else {
					first = append(first, hit.ID)
				}
			}
			return nil
		})
		if err != nil || !slices.Equal(first, test.first) || !slices.Equal(then, test.then) || end.Hits != test.end.Hits ||
			end.Next != test.end.Next || end.Reason != admin.Complete {
			t.Errorf("%+v: got %d, again %t %d, %+v, %v", test, first, again, then, end, err)
		}
	}
}

// slow is an engine whose scans take half a second for the plants of one id each.
type slow struct{ storetest.Engine }

func (slow) State(context.Context) (store.State, error) { return store.State{Plants: -1}, nil }

func (slow) Scan(
	_ context.Context, from int64, _ int, visit func(*store.Scanned),
) (next int64, more bool, err error) {
	time.Sleep(500 * time.Millisecond) //nolint:forbidigo // in a bubble of synctest
	id := max(from, 1)
	visit(&store.Scanned{ID: id})
	return id + 1, true, nil
}

// A search pauses after each read while clients create plants.
func TestSearchPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inserting, release := make(chan struct{}), make(chan struct{})
		engine := pausing{inserting: inserting, release: release}
		st, err := writepath.New(t.Context(), writepath.Config{Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		service, err := admin.New(admin.Config{Engine: engine, WritePath: st})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		search := func() time.Duration {
			end, err := service.Search(t.Context(), admin.SearchQuery{Name: "x", Limit: 1},
				func(admin.SearchProgress) error { return nil })
			if err != nil || end.Rows != 11 {
				t.Errorf("got %+v, %v", end, err)
			}
			return end.Took
		}
		if took := search(); took != 11*time.Millisecond {
			t.Errorf("without creates: took %s, want 11 ms", took)
		}
		var creates sync.WaitGroup
		creates.Go(func() { _, _ = st.Create(nil, auth.Principal{}, plant.NewPlant{ID: 1}) })
		<-inserting
		if took := search(); took != 101*time.Millisecond { // no pause after the last read
			t.Errorf("beside creates: took %s, want 101 ms", took)
		}
		close(release)
		creates.Wait()
	})
}

// pausing is an engine with 11 plants in 11 reads of a millisecond each, whose commits wait for release.
type pausing struct {
	storetest.Engine
	inserting, release chan struct{}
}

func (pausing) State(context.Context) (store.State, error) { return store.State{Plants: 11}, nil }

func (pausing) Tokens(context.Context) ([]auth.Token, error) { return nil, nil }

func (pausing) Durability() store.Durability { return store.Durability{} }

func (p pausing) Insert(context.Context, []store.Create) ([]store.Outcome, error) {
	close(p.inserting)
	<-p.release
	return make([]store.Outcome, 1), nil
}

func (pausing) Scan(
	_ context.Context, from int64, _ int, visit func(*store.Scanned),
) (next int64, more bool, err error) {
	time.Sleep(time.Millisecond) //nolint:forbidigo // in a bubble of synctest
	id := max(from, 1)
	visit(&store.Scanned{ID: id})
	return id + 1, id < 11, nil
}

// A search pins no frames of the WAL while it waits for its client: the WAL stays within its bound. It ends when its
// client disconnects.
func TestSearchPinsNoWAL(t *testing.T) {
	t.Parallel()
	const walMax = 64 << 20
	path := filepath.Join(t.TempDir(), "plants.db")
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	next := int64(0)
	insert := func(plants int) {
		var batch []store.Create
		for range plants {
			next++
			batch = append(batch, create(next, "Acer "+strings.Repeat("x", 10_000), plant.Tag{}))
		}
		if _, err := engine.Insert(t.Context(), batch); err != nil {
			t.Error(err)
		}
	}
	for range 2 { // more than one read of a search
		insert(500)
	}
	service, err := admin.New(admin.Config{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end, err := service.Search(ctx, admin.SearchQuery{Name: "acer", Limit: 10_000}, func(p admin.SearchProgress) error {
		if p.Rows == 0 {
			return nil
		}
		for range 20 {
			insert(500)
		}
		if info, err := os.Stat(path + "-wal"); err != nil || info.Size() > walMax*5/4 {
			t.Errorf("after %d plants: the WAL has %d bytes, %v", p.Rows, info.Size(), err)
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || end.Rows == 0 || end.Rows > 2048 {
		t.Errorf("got %+v, %v", end, err)
	}
}
