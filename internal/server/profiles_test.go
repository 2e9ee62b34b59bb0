package server_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/server"
)

func TestProfiles(t *testing.T) {
	t.Parallel()
	on := start(t, func(s *setup) { s.pprof = true })
	for path, want := range map[string]string{
		"/debug/pprof/":                  "full goroutine stack dump",
		"/debug/pprof/goroutine?debug=1": "goroutine profile:",
		"/debug/pprof/heap?debug=1":      "heap profile:",
		"/debug/pprof/cmdline":           filepath.Base(os.Args[0]),
	} {
		if page := on.page(t, path); !strings.Contains(page, want) {
			t.Errorf("%s: no %q in %q", path, want, page)
		}
	}
	off := start(t)
	same(t, off.sendTo(off.admin, message("GET /debug/pprof/ HTTP/1.1", "")), refused(40401, textAdminNotFound))
}

// A profile may take longer than the write timeout of the listener: net/http/pprof extends the deadline to the time
// of the profile and the write timeout, which must leave a slow machine the time to send the profile. The process
// records one CPU profile, one execution trace and one heap growth at a time. No other test records them, so the
// kinds run in parallel.
func TestTimedProfiles(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, path string
		writeTime  time.Duration
		seconds    int
		check      func(body string) error
	}{
		{"CPU", "/debug/pprof/profile", 20 * time.Second, 21, checkGzipped},
		{"heap", "/debug/pprof/heap", 20 * time.Second, 21, checkGzipped},
		{"trace", "/debug/pprof/trace", 20 * time.Second, 21, checkTrace},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := start(t, func(s *setup) { s.pprof, s.writeTime = true, row.writeTime })
			a := h.get(t, fmt.Sprintf("%s?seconds=%d", row.path, row.seconds))
			if a.Status != 200 || a.Header.Get("Content-Type") != "application/octet-stream" ||
				a.Header.Get("Content-Disposition") == "" {
				t.Errorf("got %d and headers %v", a.Status, a.Header)
			}
			if err := row.check(a.Body); err != nil {
				t.Errorf("got %d bytes: %v", len(a.Body), err)
			}
			if row.name != "trace" {
				checkDisconnect(t, start(t, func(s *setup) { s.pprof = true }), row.path)
			}
		})
	}
}

// checkDisconnect checks that a profile ends when its client disconnects, and that the server refuses a second profile
// of the kind until then.
func checkDisconnect(t *testing.T, h *harness, path string) {
	t.Helper()
	busy := refused(
		40901, "the server is recording a profile of this kind already; send the request again when it has ended",
	)
	short := path + "?seconds=1"
	for attempt := 1; ; attempt++ {
		id := fmt.Sprintf("long%s-%d", path, attempt)
		c := dial(t, h.admin)
		c.write(message("GET "+path+"?seconds=60 HTTP/1.1", "", "Host: localhost", "X-Request-Id: "+id,
			"Authorization: Bearer "+h.admins))
		// The process records one profile of a kind, also after a reload.
		if err := server.Reload(h.publicServer, h.adminServer, h.config); err != nil {
			t.Fatal(err)
		}
		a := h.get(t, short)
		_ = c.Close()
		h.log.await(t, id) // the handler has returned
		if a.Status == 409 {
			if a.Body != busy.Body {
				t.Errorf("got the body %s, want %s", a.Body, busy.Body)
			}
			break
		}
		if attempt == 20 { // the short profile started before the long one each time
			t.Fatalf("%s: a second profile was never refused; got %+v", path, a)
		}
	}
	if a := h.get(t, short); a.Status != 200 || a.Body == "" {
		t.Errorf("%s after the client disconnected: got %+v", path, a)
	}
}

// get sends a GET request with the operator's token to the admin listener.
func (h *harness) get(t *testing.T, target string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.admin+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.admins)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return response{res.StatusCode, res.Header, string(body)}
}

func checkGzipped(body string) error {
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

func checkTrace(body string) error {
	if !strings.HasPrefix(body, "go 1.") {
		return errors.New("not an execution trace")
	}
	return nil
}

// The time of a profile is limited.
func TestProfileTimes(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.pprof = true })
	for _, path := range []string{"profile", "trace", "heap", "allocs", "block", "goroutine", "mutex", "threadcreate"} {
		for _, seconds := range []string{
			"0", "-1", "1.5", "61", "1e9", "NaN", "Inf", "x", "99999999999999999999",
		} {
			same(t, h.sendTo(h.admin, message("GET /debug/pprof/"+path+"?seconds="+seconds+" HTTP/1.1", "")),
				refused(40061, `seconds must be an integer from 1 to 60; got "`+seconds+`"`))
		}
	}
	same(t, h.sendTo(h.admin, message("GET /debug/pprof/heap?seconds=1&debug=1 HTTP/1.1", "")),
		refused(40061, "seconds and debug cannot be combined; omit one"))
}
