package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"plantstore/internal/config"
)

// health runs a health check of a server, and returns its exit code and its standard error.
func health(ctx context.Context, s *httptest.Server) (code int, stderr string) {
	var out, messages bytes.Buffer
	args := []string{"health", "--admin-listen", strings.TrimPrefix(s.URL, "http://")}
	code = run(ctx, args, config.NewEnvironment(nil), strings.NewReader(""), &out, &messages)
	return code, out.String() + messages.String()
}

// A health check follows no redirect, and its message is short.
func TestHealthOfOtherServers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"redirect", "/readyz returned 307: ", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("a request for %s", r.URL.Path)
			}
			w.Header().Set("Location", "/other")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
		{"large response", "/readyz returned 503: xxx", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
		}},
		{"no response", "/readyz within 3s: ", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	} {
		s := httptest.NewServer(tt.answer)
		code, message := health(t.Context(), s)
		s.Close()
		if code != exitFailure || !strings.Contains(message, tt.want) || len(message) > 2<<10 {
			t.Errorf("%s: got %d, %.300q; want %d, %q", tt.name, code, message, exitFailure, tt.want)
		}
	}
}

// A signal ends a health check that waits for a response.
func TestHealthIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer s.Close()
	if code, message := health(ctx, s); code != exitInterrupted || message != "plantstore: interrupted\n" {
		t.Errorf("got %d, %q; want %d, interrupted", code, message, exitInterrupted)
	}
}
