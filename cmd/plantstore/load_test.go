package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is a group of clients that post different plants until stop.
type load struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	posted atomic.Int64
}

// startLoad starts the clients. A response other than 200 fails the test.
func startLoad(t *testing.T, clients int, url, token string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	t.Cleanup(cancel)
	c := httpClient(clients)
	for client := range clients {
		l.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := n*clients + client + 1_000_000
				body := fmt.Sprintf(`{"id":%d,"name":"Lolium perenne"}`, id)
				status, response, err := post(context.Background(), c, url, token, body)
				if err != nil || status != http.StatusOK {
					t.Errorf("plant %d: got %d %s, %v, want 200", id, status, response, err)
					return
				}
				l.posted.Add(1)
			}
		})
	}
	return l
}

// stop stops the clients and returns the number of posted plants.
func (l *load) stop() int64 {
	l.cancel()
	l.done.Wait()
	return l.posted.Load()
}

// TestCommandsUnderLoad tests two guarantees under full load: a command that writes does not wait until the load ends,
// and the server refuses a revoked token within 1 s. The log of the test has the longest times.
func TestCommandsUnderLoad(t *testing.T) {
	const clients = 32
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	db := filepath.Join(t.TempDir(), "a.db")
	token := strings.TrimSpace(plantstore(t, "token", "create", "load", "--no-expiry", "--create", "--db", db))
	s := startServer(t, db)
	l := startLoad(t, clients, s.url, token)

	longest := map[string]time.Duration{}
	timed := func(args ...string) string {
		t.Helper()
		begin := time.Now()
		out := plantstore(t, append(args, "--db", db)...)
		name := strings.Join(args[:min(2, len(args))], " ")
		longest[name] = max(longest[name], time.Since(begin))
		return out
	}
	for round := range rounds {
		name := fmt.Sprintf("round-%d", round)
		first := strings.TrimSpace(timed("token", "create", name, "--no-expiry"))
		second := strings.TrimSpace(timed("token", "rotate", name))
		if list := timed("token", "list"); strings.Count(list, name) != 2 {
			t.Errorf("the list lacks a token of %s:\n%s", name, list)
		}
		file := filepath.Join(t.TempDir(), "few.jsonl")
		if err := os.WriteFile(file, []byte(somePlants(100)), 0o600); err != nil {
			t.Fatal(err)
		}
		want := "created 0, existing 100, conflicting 0, invalid 0\n"
		if round == 0 {
			want = "created 100, existing 0, conflicting 0, invalid 0\n"
		}
		if got := timed("import", file); got != want {
			t.Errorf("import: got %q, want %q", got, want)
		}
		if got := timed("get", "7"); !strings.Contains(got, "Carex no. 7") {
			t.Errorf("get: got %q", got)
		}
		if got := timed("list", "--limit", "10", "--json"); strings.Count(got, "\n") != 10 {
			t.Errorf("list: got %q, want 10 lines", got)
		}
		begin := l.posted.Load()
		if got := int64(strings.Count(plantstore(t, "export", "--db", db), "\n")); got < begin {
			t.Errorf("the export has %d plants; want at least the %d of its start", got, begin)
		}
		timed("token", "revoke", name)
		for _, token := range []string{first, second} {
			if err := awaitRefusal(t.Context(), httpClient(1), s.url, token); err != nil {
				t.Errorf("revoked token: %v", err)
			}
		}
	}
	posted := l.stop()
	t.Logf("%d plants posted; longest times: %v", posted, longest)
	s.stop(t)
	if got := int64(strings.Count(plantstore(t, "export", "--db", db), "\n")); got != posted+100 {
		t.Errorf("the store has %d plants, want %d", got, posted+100)
	}
}

// realPlants returns count plants: those of the excerpts of public data, and generated ones.
func realPlants(t *testing.T, count int) []row {
	t.Helper()
	var rows []row
	for _, name := range []string{"ipni.csv", "cldr.jsonl"} {
		some, err := readPlants(filepath.Join(excerpts, name))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, some...)
	}
	for id := len(rows); id < count; id++ {
		rows = append(rows, row{id: -int64(id) * 7, name: fmt.Sprintf("Poa \"%d\", ×", id), tag: "Poaceae", tagged: true})
	}
	slices.SortFunc(rows, byID)
	return rows
}

func TestPlantsOfManyClientsAreExportedUnchanged(t *testing.T) {
	const clients = 32
	count := 10_000
	if testing.Short() {
		count = 1_500
	}
	rows := realPlants(t, count)
	db := filepath.Join(t.TempDir(), "a.db")
	token := strings.TrimSpace(plantstore(t, "token", "create", "test", "--no-expiry", "--create", "--db", db))
	s := startServer(t, db)

	c := httpClient(clients)
	next := make(chan row)
	var done sync.WaitGroup
	for range clients {
		done.Go(func() {
			for r := range next {
				status, response, err := post(t.Context(), c, s.url, token, r.json())
				if err != nil || status != http.StatusOK {
					t.Errorf("%+v: got %d %s, %v, want 200", r, status, response, err)
				}
			}
		})
	}
	for _, r := range rows {
		next <- r
	}
	close(next)
	done.Wait()
	s.stop(t)

	for _, format := range []string{"jsonl", "csv", "json"} {
		out := filepath.Join(t.TempDir(), "out."+format)
		plantstore(t, "export", "--db", db, "-o", out)
		got, err := readPlants(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := difference(got, rows); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
}
