package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestRestoreToEachCommit makes random changes of a store, half of them with webhooks. A backup from the start with the
// segments up to any of the commits must have the content that the store had then.
func TestRestoreToEachCommit(t *testing.T) {
	t.Parallel()
	seeds, changes := uint64(8), 40
	if testing.Short() {
		seeds, changes = 2, 15
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, base := filepath.Join(dir, "plantstore.db"), filepath.Join(dir, "base.db")
			c := changer{
				t: t, Engine: sqlitetest.Open(t, sqlite.Config{Path: path}), random: rand.New(rand.NewPCG(seed, 0)),
				webhooks: seed%2 > 0,
			}
			_, _, err := c.StartJournal(t.Context())
			must(t, err)
			m, err := backupfile.Backup(t.Context(), path, base, "", nil)
			must(t, err)
			contents := map[int64][]string{}
			for range changes {
				c.change()
				_, commits, err := c.Journal(t.Context(), m.Commits, 1<<30)
				must(t, err)
				if len(commits) > 0 {
					contents[commits[len(commits)-1].Number] = contentOf(t, path)
				}
			}
			must(t, c.Close())
			segments := segmentsOf(t, path, &m)
			for commit, want := range contents {
				restored := filepath.Join(t.TempDir(), "restored.db")
				later := segments[:(commit-m.Commits+1)/2] // of two commits each
				restoreSegments(t, later, commit, base, &m, restored)
				if diff := cmp.Diff(want, contentOf(t, restored)); diff != "" {
					t.Fatalf("commit %d: the store (-), restored (+):\n%s", commit, diff)
				}
			}
			t.Logf("%d commits", len(contents))
		})
	}
}

// TestErasedContentIsOverwritten erases plants whose commits were copied. Neither the file, with the free pages of the
// journal, nor what is restored from the copies may have their names.
func TestErasedContentIsOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, base := filepath.Join(dir, "plantstore.db"), filepath.Join(dir, "base.db")
	restored := filepath.Join(dir, "restored.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	_, _, err := e.StartJournal(t.Context())
	must(t, err)
	m, err := backupfile.Backup(t.Context(), path, base, "", nil)
	must(t, err)
	const name = "Taxus baccata"
	for id := range int64(50) {
		batch := sqlitetest.Batch(id*20, 20)
		var versions []store.Version
		for i := range batch {
			batch[i].Plant.Name = strings.Repeat(name, 1+i)
			versions = append(versions, store.Version{ID: batch[i].Plant.ID, CreatedAt: batch[i].At})
		}
		must(t, sqlitetest.Insert(t.Context(), e, batch))
		if n, err := e.Erase(t.Context(), versions, "", audit.Origin{}); err != nil || n != 20 {
			t.Fatalf("erased %d: %v", n, err)
		}
	}
	must(t, e.Close())
	segments := segmentsOf(t, path, &m)
	restoreSegments(t, segments, math.MaxInt64, base, &m, restored)

	e = sqlitetest.Open(t, sqlite.Config{Path: path})
	commits, _, err := e.StartJournal(t.Context())
	must(t, err)
	e.TrimJournal(commits)
	for id := range int64(3) {
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(5000+id, 1)))
	}
	must(t, e.Close())
	for _, p := range []string{path, restored} {
		content, err := os.ReadFile(p)
		must(t, err)
		if n := bytes.Count(content, []byte(name)); n > 0 {
			t.Errorf("%s has the name %d times", filepath.Base(p), n)
		}
	}
}

// changer makes random changes.
type changer struct {
	*sqlite.Engine

	t        testing.TB
	random   *rand.Rand
	webhooks bool
	seen     []store.Version // also of plants that are erased by now
	tokens   int
}

func (c *changer) change() {
	t, ctx := c.t, c.t.Context()
	t.Helper()
	by := audit.Origin{}
	var err error
	switch n := c.random.IntN(20); {
	case n < 7:
		batch := make([]store.Create, 1+c.random.IntN(4))
		for i := range batch {
			batch[i] = c.create()
		}
		err = sqlitetest.Insert(ctx, c.Engine, batch)
	case n < 10:
		_, err = c.Erase(ctx, c.some(1+c.random.IntN(4)), "", by)
	case n < 13:
		if seen := c.some(1); len(seen) > 0 {
			right := c.create()
			right.Plant.ID = seen[0].ID
			err = c.Correct(ctx, seen[0], right, "", by)
		}
	case n < 14:
		c.tokens++
		name := fmt.Sprint("token", c.tokens)
		_, err = c.CreateToken(ctx, auth.Token{Name: name, Hash: auth.HashOf(name), CreatedAt: time.Now()}, by)
	case n < 15:
		_, err = c.RevokeTokens(ctx, store.Selector{Name: fmt.Sprint("token", c.tokens)}, time.Now(), by)
	case !c.webhooks:
		err = c.AppendAudit(ctx, audit.Event{Time: time.Now(), Action: audit.PlantsExport, Origin: by})
	case n < 16:
		urls := []string{"https://a.example/", "https://b.example/"}
		_, err = c.SetWebhooks(ctx, urls[:c.random.IntN(3)], by)
	case n < 19:
		err = c.deliver()
	default:
		_, err = c.RetryDead(ctx, store.DeadSelector{}, by)
	}
	if !errors.Is(err, store.ErrNotFound) { // erased or revoked before
		must(t, err)
	}
	for _, id := range ids {
		rows, err := c.PlantsByID(ctx, []int64{id}, store.PlantsBytes)
		must(t, err)
		for _, r := range rows {
			c.seen = append(c.seen, store.VersionOf(r))
		}
	}
}

// ids are the ids of all plants.
var ids = []int64{math.MinInt64, -1, 0, 1, 2, 3, math.MaxInt64}

func (c *changer) create() store.Create {
	n := plant.NewPlant{ID: ids[c.random.IntN(len(ids))]}
	n.Name = strings.Repeat("n", c.random.IntN(3)*c.random.IntN(5000))
	if c.random.IntN(2) > 0 {
		n.Tag = plant.Tagged(strings.Repeat("t", c.random.IntN(3)))
	}
	return store.Create{Plant: n, By: c.random.Int64N(3), At: time.Now()}
}

// some returns at most n versions that were stored at some time, mostly late ones.
func (c *changer) some(n int) (versions []store.Version) {
	late := min(len(c.seen), 2*len(ids))
	for range min(n, late) {
		versions = append(versions, c.seen[len(c.seen)-1-c.random.IntN(late)])
	}
	return versions
}

// deliver ends deliveries in different ways, and leaves some claimed.
func (c *changer) deliver() error {
	claim := store.Claim{Most: map[int64]int{1: 4, 2: 4}, Lease: time.Minute}
	taken, err := c.TakeDeliveries(c.t.Context(), nil, claim)
	var results []store.DeliveryResult
	for _, d := range taken {
		r := store.DeliveryResult{Webhook: d.Webhook, Plant: d.Plant.ID, Since: d.Since, Lease: d.Lease, Reason: "status 500"}
		if r.Done = c.random.IntN(2) > 0; !r.Done {
			r.Dead, r.Attempts = c.random.IntN(2) > 0, 1
		}
		results = append(results, r)
	}
	if err == nil {
		_, err = c.TakeDeliveries(c.t.Context(), results[:c.random.IntN(len(results)+1)], store.Claim{})
	}
	return err
}
