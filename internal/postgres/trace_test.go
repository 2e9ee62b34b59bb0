package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
	"plantstore/internal/trace"
	"plantstore/internal/trace/tracetest"
	"plantstore/internal/writepath"
)

// gated holds its first commit until release is closed.
type gated struct {
	writepath.Engine
	once    sync.Once
	entered chan struct{}
	release chan struct{}
}

func (g *gated) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	g.once.Do(func() { close(g.entered) })
	<-g.release
	return g.Engine.Insert(ctx, batch)
}

// tracedStore is a store in a database whose requests have spans.
type tracedStore struct {
	*writepath.Service
	engine    *gated
	metrics   *prometheus.Registry
	tracer    *trace.Tracer
	collector *tracetest.Collector
}

func newTracedStore(t *testing.T, url string) *tracedStore {
	t.Helper()
	collector := tracetest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") // spans wait for no others
	tracer, err := trace.New(nil, "1.0.0", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	e, err := postgres.Open(t.Context(), postgres.Config{URL: url, Server: true, Migrate: true, Traced: true})
	if err != nil {
		t.Fatal(err)
	}
	g := &gated{Engine: e, entered: make(chan struct{}), release: make(chan struct{})}
	metrics := prometheus.NewRegistry()
	s, err := writepath.New(t.Context(), writepath.Config{
		Engine: g, Tracer: tracer, Metrics: metrics,
		Limits: writepath.Limits{QueueMax: 100, Bytes: 1 << 20, CommitTimeout: time.Minute, AnswerTimeout: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		tracer.Close(context.Background())
	})
	return &tracedStore{s, g, metrics, tracer, collector}
}

// waitForQueue waits until plants wait for the next commit.
func (s *tracedStore) waitForQueue(t *testing.T, plants int) {
	t.Helper()
	want := fmt.Sprintf("# HELP plantstore_queue_plants Plants that wait for the next commit.\n"+
		"# TYPE plantstore_queue_plants gauge\nplantstore_queue_plants %d\n", plants)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		err := testutil.GatherAndCompare(s.metrics, strings.NewReader(want), "plantstore_queue_plants")
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(err)
		}
	}
}

// create creates a plant in a request of its own.
func (s *tracedStore) create(id int64) error {
	span := s.tracer.Request(nil, time.Now())
	defer span.End()
	span.SetName("request")
	_, err := s.Create(span, auth.Principal{}, plant.NewPlant{ID: id, Plant: plant.Plant{Name: "Rosa canina"}})
	return err
}

// childrenOf returns the names of a span's children, and fails for a child without the database's attributes.
func childrenOf(t *testing.T, spans []tracetest.Span, parent string) (names []string) {
	t.Helper()
	for _, s := range spans {
		if s.Parent != parent {
			continue
		}
		names = append(names, s.Name)
		if s.Kind != "SPAN_KIND_CLIENT" {
			continue // a wait
		}
		if diff := cmp.Diff(map[string]any{"db.system.name": "postgresql"}, s.Attributes); diff != "" {
			t.Errorf("attributes of %s (-want +got):\n%s", s.Name, diff)
		}
	}
	slices.Sort(names)
	return names
}

// TestSpans stores a plant, and several that share a commit. The commit links to each request and each request to the
// commit, whose children are the wait for a connection and the statement.
func TestSpans(t *testing.T) {
	const batch = 5
	s := newTracedStore(t, database(t))
	var requests sync.WaitGroup
	create := func(id int64) {
		requests.Go(func() {
			if err := s.create(id); err != nil {
				t.Error(err)
			}
		})
	}
	create(0)
	<-s.engine.entered
	for i := range int64(batch) {
		create(i + 1)
	}
	s.waitForQueue(t, batch)
	close(s.engine.release)
	requests.Wait()
	spans := s.collector.Wait(t, func(spans []tracetest.Span) bool { return roots(spans) == 1+batch+2 })
	byID := map[string]tracetest.Span{}
	for _, span := range spans {
		byID[span.ID] = span
	}
	var sizes []int
	for _, commit := range spans {
		if commit.Name != "commit" {
			continue
		}
		sizes = append(sizes, len(commit.Links))
		want := []string{"INSERT", "connection wait"}
		if diff := cmp.Diff(want, childrenOf(t, spans, commit.ID)); diff != "" || commit.Failed {
			t.Errorf("children of the commit %+v (-want +got):\n%s", commit, diff)
		}
		for _, id := range commit.Links {
			request := byID[id]
			want := []string{"commit wait", "queue wait"}
			if diff := cmp.Diff(want, childrenOf(t, spans, id)); diff != "" || request.TraceID == commit.TraceID {
				t.Errorf("children of the request %+v (-want +got):\n%s", request, diff)
			}
			linked := slices.ContainsFunc(spans, func(s tracetest.Span) bool {
				return s.Parent == id && s.Name == "commit wait" && slices.Equal(s.Links, []string{commit.ID})
			})
			if !linked {
				t.Errorf("the wait of the request %s has no link to the commit %s", id, commit.ID)
			}
		}
	}
	if !slices.Equal(sizes, []int{1, batch}) {
		t.Errorf("commits with %v links, want 1 and %d", sizes, batch)
	}
}

// roots returns the number of requests and commits. Their children end before them.
func roots(spans []tracetest.Span) (n int) {
	for _, s := range spans {
		if s.Parent == "" {
			n++
		}
	}
	return n
}
