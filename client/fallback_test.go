package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/client"
)

// TestFallback runs creates one after another against two servers, and compares which attempts each server receives.
func TestFallback(t *testing.T) {
	t.Parallel()
	invalid := status("400 Bad Request", "", `{"error":40023,"message":"NUL"}`)
	denied := status("401 Unauthorized", "", `{"error":40102,"message":"unknown"}`)
	for name, row := range map[string]struct {
		a, b []reply  // of a client with the addresses A and B
		want []string // the error of each create; empty: the plant is created
	}{
		"503":              {a: []reply{full}, b: []reply{created, created}, want: []string{"", ""}},
		"broken":           {a: []reply{hangUp}, b: []reply{created, created}, want: []string{"", ""}},
		"a switch back":    {a: []reply{full, created, created}, b: []reply{created, full}, want: []string{"", "", ""}},
		"both, two rounds": {a: []reply{full, full}, b: []reply{reset, created}, want: []string{""}},
		"an error of the first is final": {
			a: []reply{invalid, denied}, want: []string{
				"create plant 7: NUL [error 40023, request ID to A/plants]",
				"create plant 7: unknown [error 40102, request ID to A/plants]",
			},
		},
		"an error of the second is final": {
			a: []reply{full}, b: []reply{invalid, created}, want: []string{
				"create plant 7: NUL [error 40023, request ID to B/plants, 2 attempts]", "",
			},
		},
		"unknown at the first": {
			a: []reply{unknown}, b: []reply{denied}, want: []string{
				"create plant 7: unknown [error 40102, request ID to B/plants, 2 attempts, the plant may be stored]",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := "http://" + newScripted(t, row.a...).Addr().String()
			b := "http://" + newScripted(t, row.b...).Addr().String()
			c := newClient(t, a, client.WithFallback(b))
			for i, want := range row.want {
				_, err := c.Create(t.Context(), client.NewPlant{ID: 7, Name: "Acer"})
				if got := strings.NewReplacer(a, "A", b, "B").Replace(withoutID(err)); got != want {
					t.Errorf("create %d: got  %q\nwant %q", i+1, got, want)
				}
			}
		})
	}
}

// TestFallbackOneAttempt tests that a client without retries sends one request, and starts at the next server after a
// failure.
func TestFallbackOneAttempt(t *testing.T) {
	t.Parallel()
	a, b := newScripted(t, full), newScripted(t, created, created)
	c := newClient(t, "http://127.0.0.1:1", client.WithRetryFor(0),
		client.WithFallback("http://"+a.Addr().String(), "http://"+b.Addr().String()))
	for i, created := range []bool{false, false, true, true} {
		_, err := c.Create(t.Context(), client.NewPlant{})
		if e, ok := errors.AsType[*client.Error](err); ok == created || ok && e.Attempts != 1 {
			t.Errorf("create %d: %v", i+1, err)
		}
	}
}

// TestFallbackPauses tests that only a whole round is followed by a pause, which is the longest that a server of it
// asked for, and that a round starts at the server whose response to another create was final.
func TestFallbackPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards attempts
		began, attempts := time.Now(), []string{}
		c := newClient(t, "http://a", client.WithFallback("http://b", "http://c"),
			client.WithTransport(transport(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				at := time.Since(began).Truncate(time.Second)
				attempts = append(attempts, fmt.Sprint(at, " ", r.URL.Host))
				w := httptest.NewRecorder()
				switch {
				case at >= 10*time.Second && r.URL.Host == "b":
					_, _ = w.WriteString(`{"name":"Acer"}`)
				case r.URL.Host == "c":
					return nil, io.ErrUnexpectedEOF
				default:
					w.Header().Set("Retry-After", map[string]string{"a": "7", "b": "1"}[r.URL.Host])
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return w.Result(), nil
			})))
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := c.Create(t.Context(), client.NewPlant{}); err != nil {
				t.Error(err)
			}
		})
		<-time.After(10 * time.Second)
		if _, err := c.Create(t.Context(), client.NewPlant{}); err != nil {
			t.Error(err)
		}
		waiting.Wait()
		want := []string{"0s a", "0s b", "0s c", "7s a", "7s b", "7s c", "10s a", "10s b", "14s b"}
		if diff := gocmp.Diff(want, attempts); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestFallbackDeadline tests that creates whose deadline ends before the first server responds do not all start there,
// and that no attempt starts after the time of WithRetryFor.
func TestFallbackDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := ""
		silent := client.WithTransport(transport(func(r *http.Request) (*http.Response, error) {
			if hosts += r.URL.Host; r.URL.Host == "a" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			w := httptest.NewRecorder()
			_, _ = w.WriteString(`{"name":"Acer"}`)
			return w.Result(), nil
		}))
		c := newClient(t, "http://a", client.WithFallback("http://b"), silent)
		canceled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, first := c.Create(canceled, client.NewPlant{}) // which says nothing about the server
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, second := c.Create(ctx, client.NewPlant{})
		_, third := c.Create(t.Context(), client.NewPlant{})
		if !errors.Is(first, context.Canceled) || !errors.Is(second, context.DeadlineExceeded) || third != nil ||
			hosts != "aab" {
			t.Errorf("got %v, %v, %v at %s, want aab", first, second, third, hosts)
		}
		hosts = ""
		c = newClient(t, "http://a", client.WithFallback("http://b"), silent, client.WithRetryFor(time.Second))
		if _, err := c.Create(t.Context(), client.NewPlant{}); err == nil || hosts != "a" {
			t.Errorf("got %v at %s, want a", err, hosts)
		}
	})
}

// TestFallbackFound tests that a create that gives up does not move the others from the server that one of them found.
func TestFallbackFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type slow struct{}
		c := newClient(t, "http://a", client.WithFallback("http://b"), client.WithAttemptTimeout(time.Second),
			client.WithTransport(transport(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "a" || r.Context().Value(slow{}) != nil {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				w := httptest.NewRecorder()
				_, _ = w.WriteString(`{"name":"Acer"}`)
				return w.Result(), nil
			})))
		var gaveUp error
		go func() {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), slow{}, true), 1500*time.Millisecond)
			defer cancel()
			_, gaveUp = c.Create(ctx, client.NewPlant{})
		}()
		synctest.Wait()
		_, found := c.Create(t.Context(), client.NewPlant{}) // after a second, at b
		<-time.After(time.Second)
		synctest.Wait()
		if e, ok := errors.AsType[*client.Error](gaveUp); !ok || e.Attempts != 2 || found != nil {
			t.Fatalf("got %v, %v", gaveUp, found)
		}
		began := time.Now()
		if _, err := c.Create(t.Context(), client.NewPlant{}); err != nil || time.Since(began) > 0 {
			t.Errorf("got %v after %v: the create started at a", err, time.Since(began))
		}
	})
}

// TestFallbackSwitches changes several times which of two servers accepts plants, below CreateAll. Each create
// succeeds.
func TestFallbackSwitches(t *testing.T) {
	t.Parallel()
	const plants, switches = 4000, 8
	var accepts atomic.Int64 // the index of a server
	newServer := func(index int64, refuse http.HandlerFunc) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if accepts.Load() != index {
				refuse(w, r)
				return
			}
			_, _ = io.Copy(w, r.Body) // a plant
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	standby := newServer(0, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	broken := newServer(1, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c, done := newClient(t, standby, client.WithFallback(broken, "http://127.0.0.1:1")), 0
	for o := range c.CreateAll(t.Context(), numbered(plants)) {
		if done++; done%(plants/(switches+1)) == 0 {
			accepts.Store(1 - accepts.Load())
		}
		if o.Err != nil || o.Plant.Name != o.NewPlant.Name {
			t.Errorf("%+v", o)
		}
	}
	if done != plants {
		t.Errorf("%d outcomes, want %d", done, plants)
	}
}
