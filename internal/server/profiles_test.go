package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestProfiles(t *testing.T) {
	t.Parallel()
	on := start(t, func(s *setup) { s.profiles = true })
	for path, want := range map[string]string{
		"/debug/pprof/":                  "full goroutine stack dump",
		"/debug/pprof/goroutine?debug=1": "goroutine profile:",
		"/debug/pprof/heap?debug=1":      "heap profile:",
		"/debug/pprof/cmdline":           "server.test",
	} {
		if page := on.page(t, path); !strings.Contains(page, want) {
			t.Errorf("%s: no %q in %q", path, want, page)
		}
	}
	off := start(t)
	same(t, off.sendTo(off.admin, message("GET /debug/pprof/ HTTP/1.1", "")), refused(40401, "nothing is served at this path"))
}

// TestTimedProfiles records profiles that take longer than the listener's
// write timeout. The process has one CPU profile and one execution trace, so
// nothing here runs in parallel.
func TestTimedProfiles(t *testing.T) { //nolint:paralleltest // see above
	h := start(t, func(s *setup) { s.profiles, s.writeTime = true, 500*time.Millisecond })
	for target, isWhole := range map[string]func(string) error{
		"/debug/pprof/profile?seconds=1": isGzip,
		"/debug/pprof/heap?seconds=1":    isGzip,
		"/debug/pprof/trace?seconds=0.6": nil,
	} {
		a := h.get(t, target)
		if a.Status != 200 || a.Header.Get("Content-Type") != "application/octet-stream" || a.Header.Get("Content-Disposition") == "" {
			t.Errorf("%s: got %d and headers %v", target, a.Status, a.Header)
		}
		if isWhole == nil {
			if !strings.HasPrefix(a.Body, "go 1.") {
				t.Errorf("%s: got %d bytes that are no trace", target, len(a.Body))
			}
		} else if err := isWhole(a.Body); err != nil {
			t.Errorf("%s: got %d bytes: %v", target, len(a.Body), err)
		}
	}
	leave(t, h)
}

// leave checks that a profile ends when its client leaves, and that a second
// one is refused until then.
func leave(t *testing.T, h *harness) {
	t.Helper()
	for _, path := range []string{"/debug/pprof/profile", "/debug/pprof/heap"} {
		busy := refused(40901, "a profile of this kind is being recorded: send the request again when it has ended")
		c := dial(t, h.admin)
		c.write(message("GET "+path+"?seconds=60 HTTP/1.1", "", "Host: localhost", "X-Request-Id: left"+path))
		short := path + "?seconds=1"
		h.until(t, func() bool { // the first one is recorded
			a := h.get(t, short)
			if a.Status == 409 && a.Body != busy.Body {
				t.Errorf("got %+v, want the body %s", a, busy.Body)
			}
			return a.Status == 409
		})
		_ = c.Close()
		h.log.await(t, "left"+path) // the handler has returned
		if a := h.get(t, short); a.Status != 200 || a.Body == "" {
			t.Errorf("%s after the client left: got %+v", path, a)
		}
	}
}

// get returns what the admin listener answers.
func (h *harness) get(t *testing.T, target string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.admin+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// until repeats something that takes a while itself, until it is so.
func (h *harness) until(t *testing.T, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !isSo(); {
		if time.Now().After(deadline) {
			t.Fatal("waited for too long")
		}
	}
}

func isGzip(body string) error {
	r, err := gzip.NewReader(bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

// The time of a profile has a bound.
func TestProfileTimes(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.profiles = true })
	for _, path := range []string{"profile", "trace", "heap", "allocs", "block", "goroutine", "mutex", "threadcreate"} {
		for _, seconds := range []string{"0", "-1", "60.5", "61", "1e9", "1e300", "NaN", "Inf", "-Inf", "x", "99999999999999999999"} {
			same(t, h.sendTo(h.admin, message("GET /debug/pprof/"+path+"?seconds="+seconds+" HTTP/1.1", "")),
				refused(40061, `seconds must be a number above 0 and up to 60; got "`+seconds+`"`))
		}
	}
	for _, query := range []string{"seconds=1.5", "seconds=1&debug=1"} {
		same(t, h.sendTo(h.admin, message("GET /debug/pprof/heap?"+query+" HTTP/1.1", "")),
			refused(40061, "seconds of this profile must be a whole number, and debug cannot be combined with it"))
	}
}
