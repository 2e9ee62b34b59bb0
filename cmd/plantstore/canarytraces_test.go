package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"plantstore/internal/config"
	"plantstore/internal/trace/tracetest"
)

// secretCollector starts a collector and returns the variables with which a server exports traces to it. It adds the
// secrets in them.
func secretCollector(t *testing.T, c canaries) (collector *tracetest.Collector, variables []string) {
	t.Helper()
	const bearer, key = "the credential of OTLP", "another header of OTLP"
	for _, place := range []string{bearer, key} {
		c[place] = newCanary()
	}
	collector = tracetest.Start(t)
	return collector, []string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + collector.URL + "/v1/traces",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + c[bearer] + ",x-api-key=" + c[key],
		"OTEL_BSP_SCHEDULE_DELAY=1",
	}
}

// checkTraces shows that the collector receives the secrets of its headers, and no others. Then the collector refuses
// spans and returns the secrets; await continues when the log has the failure.
func checkTraces(t *testing.T, c canaries, s *testServer, collector *tracetest.Collector) {
	t.Helper()
	spans := collector.Wait(t, func(spans []tracetest.Span) bool {
		return slices.ContainsFunc(spans, func(s tracetest.Span) bool { return s.Name == "commit" })
	})
	c.mustBeAbsent(t, "the spans", fmt.Appendf(nil, "%+v", spans))
	h := collector.Headers()[0]
	if h.Get("Authorization") != "Bearer "+c["the credential of OTLP"] ||
		h.Get("X-Api-Key") != c["another header of OTLP"] {
		t.Errorf("the collector received the headers %v, so the test shows nothing", h)
	}
	collector.Answer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprint(r.URL, r.Header), http.StatusBadRequest)
	}))
	sendRaw(t, strings.TrimPrefix(s.listen(t), "http://"), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if _, err := s.await(s.stderr, "traces are not exported.*: 400"); err != nil {
		t.Error(err)
	}
	collector.Answer(nil)
}

// checkSettings searches the settings that the program, the admin API and the console show.
func checkSettings(t *testing.T, c canaries, s *testServer, environ []string, admin string) {
	t.Helper()
	match, err := s.await(s.stderr, readyLine)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"config"}, {"config", "--server", match[3]}} {
		cmd := exec.CommandContext(t.Context(), "plantstore", args...)
		cmd.Env = append(environ, config.VariablePrefix+"TOKEN="+admin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		c.mustBeAbsent(t, strings.Join(args[:1], " "), out)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := httpClient(1)
	browser.Jar = jar
	res, err := browser.PostForm(match[3]+"/sign-in", url.Values{"credential": {admin}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	for _, path := range []string{"/", "/live", "/settings", "/audit", "/api/v1/settings", "/api/v1/state"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, match[3]+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "/api/") {
			r.Header.Set("Authorization", "Bearer "+admin)
		}
		res, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || res.Request.URL.Path != path {
			t.Errorf("%s: %d at %s, %v", path, res.StatusCode, res.Request.URL, err)
		}
		c.mustBeAbsent(t, path, text)
	}
}
