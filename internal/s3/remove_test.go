package s3

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRemoveOnOtherServers removes several objects from servers that remove some or none of them, or that don't know
// the request for several.
func TestRemoveOnOtherServers(t *testing.T) {
	t.Parallel()
	const (
		whole   = "<DeleteResult/>"
		refusal = "<Error><Key>%s</Key><Code>%s</Code><Message>We refuse that.</Message></Error>"
		server  = "the S3 server http://s3.example returned "
		first   = "could not remove 3 objects: s3://nursery-backups/p-1: "
		rights  = server + "AccessDenied (%d): We refuse that; " +
			"give the keys the rights to list the bucket, and to read, write and delete its objects"
	)
	some := func(refusals ...string) string {
		return "<DeleteResult>" + strings.Join(refusals, "") + "</DeleteResult>"
	}
	denied, missing := fmt.Sprintf(refusal, "p-2", "AccessDenied"), fmt.Sprintf(refusal, "p-1", "NoSuchKey")
	unknown := func(code string) string { return fmt.Sprintf(refusal, "", code) }
	for name, row := range map[string]struct {
		status   int
		response string
		one      int    // status for p-1 alone; 0: the server receives no such request
		left     int    // 0: no error
		want     string // error
		posts    int64  // requests for several objects, of two calls
	}{
		"all":                 {200, whole, 0, 0, "", 2},
		"all, none existed":   {200, some(missing, missing, missing), 0, 0, "", 2},
		"some":                {200, some(missing, denied), 0, 1, "s3://nursery-backups/p-2: " + fmt.Sprintf(rights, 200), 2},
		"others":              {200, some(denied, denied, denied, denied, denied), 0, 3, fmt.Sprintf(rights, 200), 2},
		"no right":            {403, unknown("AccessDenied"), 0, 3, first + fmt.Sprintf(rights, 403), 2},
		"status 200":          {200, unknown("InternalError"), 0, 3, first + server + "InternalError (200)", 2},
		"busy":                {503, unknown("SlowDown"), 0, 3, first + server + "SlowDown (503)", 10},
		"a page":              {200, "<html></html>", 0, 3, first + "the response is not from an S3 server", 2},
		"not implemented":     {501, unknown("NotImplemented"), 204, 0, "", 1},
		"no such method":      {405, unknown("MethodNotAllowed"), 204, 0, "", 1},
		"a new bucket":        {400, unknown("InvalidArgument"), 204, 0, "", 1},
		"no such path":        {404, "", 204, 0, "", 1},
		"no such path at all": {404, "", 403, 1, "p-1: " + server + "AccessDenied (403)", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := removingServer{t: t, status: row.status, response: row.response, one: row.one}
				b := openServed(t, s.serve)
				for range 2 {
					err := b.Remove(t.Context(), "p-1", "p-2", "p-3")
					failed, ok := errors.AsType[*RemoveError](err)
					if row.left == 0 && err == nil || ok && failed.Left == row.left && strings.Contains(err.Error(), row.want) {
						continue
					}
					t.Errorf("got %v, want %d objects, %s", err, row.left, row.want)
				}
				if n := s.posts.Load(); n != row.posts {
					t.Errorf("%d requests for several objects, want %d", n, row.posts)
				}
			})
		})
	}
}

// TestRemoveEach removes 100 objects from a server that removes one in a request, a few at the same time, until one
// fails.
func TestRemoveEach(t *testing.T) {
	t.Parallel()
	for one, fails := range map[int]bool{http.StatusNoContent: false, http.StatusForbidden: true} {
		synctest.Test(t, func(t *testing.T) {
			s := removingServer{t: t, status: http.StatusNotImplemented, one: one}
			b := openServed(t, s.serve)
			keys := make([]string, 100)
			for i := range keys {
				keys[i] = fmt.Sprint("p-", i)
			}
			if err := b.Remove(t.Context(), keys...); (err != nil) != fails {
				t.Errorf("status %d: %v", one, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if fails && s.ones >= 10 || !fails && s.ones != 100 || s.mostOnes != 4 {
				t.Errorf("status %d: %d requests, %d of them at the same time", one, s.ones, s.mostOnes)
			}
		})
	}
}

// removingServer is a server with responses of its own to the removal of several objects, and of p-1 alone.
type removingServer struct {
	t        *testing.T
	status   int
	response string
	one      int // status for p-1 alone; 0: no object is removed alone

	posts atomic.Int64 // requests for several objects

	mu                      sync.Mutex // guards the numbers of requests for one object
	ones, running, mostOnes int
}

// add counts a request for one object that starts (1) or ends (-1).
func (s *removingServer) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ones, s.running = s.ones+max(n, 0), s.running+n
	s.mostOnes = max(s.mostOnes, s.running)
}

func (s *removingServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete {
		if s.one == 0 {
			s.t.Errorf("DELETE %s", r.URL)
		}
		s.add(1)
		<-time.After(time.Second) // until all others wait too
		s.add(-1)
		if strings.HasSuffix(r.URL.Path, "/p-1") {
			w.WriteHeader(s.one)
		}
		return
	}
	s.posts.Add(1)
	text, err := io.ReadAll(r.Body)
	if sum := md5.Sum(text); err != nil || r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
		s.t.Errorf("Content-MD5 %s, %v", r.Header.Get("Content-Md5"), err)
	}
	var list struct {
		Quiet bool
		Keys  []string `xml:"Object>Key"`
	}
	if err := xml.Unmarshal(text, &list); err != nil || !list.Quiet || !r.URL.Query().Has("delete") {
		s.t.Errorf("%s %s: %s, %v", r.Method, r.URL, text, err)
	}
	if want := []string{"p-1", "p-2", "p-3"}; len(list.Keys) == 3 {
		if diff := cmp.Diff(want, list.Keys); diff != "" {
			s.t.Errorf("-want +got:\n%s", diff)
		}
	}
	w.WriteHeader(s.status)
	fmt.Fprint(w, s.response)
}
