// Package overload runs a server with more clients than its queue can hold, and with hostile clients, and measures a
// well-behaved client beside them.
package overload

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var long = flag.Bool("long", false, "run more rounds")

// small is a queue for few plants, so that few clients fill it.
var small = rig.Weakness{
	File: "internal/writepath/writer.go",
	Old:  "\tQueueMax      = 8192\n",
	New:  "\tQueueMax      = 16\n",
}

// endless is a queue without a limit.
var endless = []rig.Weakness{
	{
		File: "internal/writepath/writer.go",
		Old:  "\tcase len(b.creates) >= w.limit.QueueMax || b.bytes+bytes > w.limit.Bytes:\n",
		New:  "\tcase len(b.creates) < 0:\n",
	},
	{
		File: "internal/writepath/share.go",
		Old:  "\tif has.plants < sharePerFree*freePlants && has.bytes < sharePerFree*freeBytes {\n",
		New:  "\tif has.plants >= 0 {\n",
	},
}

// forgetful stores the plants that it refuses.
var forgetful = []rig.Weakness{{
	File: "internal/writepath/share.go",
	Old:  "\tw.metrics.refusedShare.Add(1)\n",
	New:  "\tw.metrics.refusedShare.Add(1)\n\tb.creates = append(b.creates, c)\n",
}}

// TestControl shows that the checks of TestFullQueue detect weaknesses.
func TestControl(t *testing.T) {
	t.Parallel()
	for name, weak := range map[string][]rig.Weakness{"endless": endless, "forgetful": forgetful} {
		if faults := crowded(t, rig.Build(t, append(weak, small)...)); len(faults) == 0 {
			t.Errorf("%s: not detected", name)
		}
	}
}

// TestFullQueue runs more clients than the queue can hold. The server refuses plants with a Retry-After header, stores
// no refused plant, and serves a single client afterwards.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	for _, fault := range crowded(t, rig.Build(t, small)) {
		t.Error(fault)
	}
}

// crowded sends many plants at the same time to a server with a small queue. It returns the faults.
func crowded(t *testing.T, program string) (faults []string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "plants.db")
	token := rig.Token(t, program, db, "a")
	server, err := rig.Start(t, program, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) } // while mu is held
	statuses, stored := map[int]int{}, map[int64]bool{}                                                 // guarded by mu
	var clients sync.WaitGroup
	for client := range int64(128) {
		clients.Go(func() {
			for id := client; id < 128*50; id += 128 {
				status, retryAfter, err := post(t.Context(), server.URL, token, id)
				mu.Lock()
				statuses[status]++
				stored[id] = status == http.StatusOK
				if err != nil || status == http.StatusServiceUnavailable && retryAfter == "" {
					wrong("plant %d: status %d, %v, Retry-After %q", id, status, err, retryAfter)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	t.Logf("responses by status: %v", statuses)
	if statuses[200] == 0 || statuses[503] == 0 || len(statuses) != 2 {
		wrong("responses by status: %v, want 200 and 503", statuses)
	}
	if status, _, err := post(t.Context(), server.URL, token, -1); err != nil || status != http.StatusOK {
		wrong("a single client afterwards: %d, %v", status, err)
	}
	if code := server.Stop(); code != 0 {
		wrong("the server ended with code %d", code)
	}
	plants, err := rig.Export(t, program, db)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range stored {
		if _, got := plants[id]; got != want {
			wrong("plant %d: stored %v, acknowledged %v", id, got, want)
		}
	}
	return faults
}

// crowd keeps a connection for each client of TestFullQueue.
var crowd = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}

// post sends a plant and returns the status and the Retry-After header.
func post(ctx context.Context, url, token string, id int64) (status int, retryAfter string, err error) {
	return postWith(ctx, crowd, url, token, id)
}

func postWith(
	ctx context.Context, client *http.Client, url, token string, id int64,
) (status int, retryAfter string, err error) {
	body := strings.NewReader(fmt.Sprintf(`{"id":%d,"name":"made"}`, id))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/plants", body)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("Retry-After"), errors.Join(err, response.Body.Close())
}

// hostile are clients that occupy as many resources of a server as they can.
var hostile = map[string]func(c net.Conn, stop <-chan struct{}){
	"idle": func(_ net.Conn, stop <-chan struct{}) { <-stop },
	"kept": func(c net.Conn, stop <-chan struct{}) { // like a client that keeps its connection for the next request
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-stop
	},
	"slow headers": func(c net.Conn, stop <-chan struct{}) {
		drip(c, stop, "POST /plants HTTP/1.1\r\nHost: a\r\nX-Long: "+strings.Repeat("a", 10_000))
	},
	"slow body": func(c net.Conn, stop <-chan struct{}) {
		drip(c, stop, "POST /plants HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"+
			"Content-Length: 60000\r\n\r\n"+strings.Repeat(" ", 10_000))
	},
	"never reads": func(c net.Conn, stop <-chan struct{}) {
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10) // fills up soon
		go func() {                                 // ends with the connection; besiege closes it
			for {
				if _, err := io.WriteString(c, "GET /docs HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
					return
				}
			}
		}()
		<-stop
	},
	"not HTTP": func(c net.Conn, stop <-chan struct{}) {
		_, _ = io.WriteString(c, "\x16\x03\x01 this is not HTTP\r\n\r\n")
		<-stop
	},
}

// drip sends the first 100 bytes of a text at once and the rest byte by byte.
func drip(c net.Conn, stop <-chan struct{}, text string) {
	head := min(len(text), 100)
	_, _ = io.WriteString(c, text[:head])
	for _, b := range []byte(text[head:]) {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond): // the pace of a slow client
		}
		if _, err := c.Write([]byte{b}); err != nil {
			return // the server closed the connection
		}
	}
}

// p99 sends plants one at a time and returns the 99th percentile of the response times.
func p99(t *testing.T, url, token string, from int64) time.Duration {
	t.Helper()
	return percentile99(times(t, url, token, from))
}

// times sends plants one at a time and returns the response times.
func times(t *testing.T, url, token string, from int64) []time.Duration {
	t.Helper()
	const n = 500
	times := make([]time.Duration, 0, n)
	for id := from; id < from+n; id++ {
		started := time.Now()
		status, _, err := post(t.Context(), url, token, id)
		if err != nil || status != http.StatusOK {
			t.Fatalf("the well-behaved client: %d, %v", status, err)
		}
		times = append(times, time.Since(started))
	}
	return times
}

// TestHostile runs a well-behaved client beside a thousand idle connections, beside fifty that never read, and beside
// 200 of each other kind.
func TestHostile(t *testing.T) {
	program := rig.Build(t)
	db := filepath.Join(t.TempDir(), "plants.db")
	token := rig.Token(t, program, db, "a")
	server, err := rig.Start(t, program, db, nil, "--request-timeout", "2s")
	if err != nil {
		t.Fatal(err)
	}
	rounds, from := 1, int64(0)
	if *long {
		rounds = 5
	}
	for name, client := range hostile {
		var ratios []float64
		for range rounds {
			alone := p99(t, server.URL, token, from)
			count := 200
			switch name {
			case "idle", "kept":
				count = 1000
			case "never reads": // each first fills megabytes of socket buffers
				count = 50
			}
			stop := besiege(t, server.URL, count, client)
			if name == "never reads" { // until its buffers are full, a client is an ordinary one
				stuck(t, server, token)
			}
			beside := p99(t, server.URL, token, from+1000)
			stop()
			from += 10_000
			ratios = append(ratios, float64(beside)/float64(alone))
		}
		slices.Sort(ratios)
		ratio := ratios[len(ratios)/2]
		t.Logf("%s: p99 beside them is %.2f times that alone (%.2f–%.2f)", name, ratio, ratios[0], ratios[len(ratios)-1])
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
}

// besiege connects so many clients. stop ends them and waits for their end.
func besiege(t *testing.T, url string, count int, client func(net.Conn, <-chan struct{})) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var clients sync.WaitGroup
	for range count {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			defer c.Close()
			client(c, done)
		})
	}
	return func() { close(done); clients.Wait() }
}

// stuck waits until the server is blocked on clients that do not read, and their number is stable. A network
// without a valid credential has only a few requests in progress; the others wait.
func stuck(t *testing.T, server *rig.Server, token string) {
	t.Helper()
	before, same := 0, 0
	rig.Within(t, time.Minute, 100*time.Millisecond, "the server is blocked on clients that do not read", func() bool {
		n := gauge(t, server, token, "plantstore_http_requests_in_flight")
		if same++; n != before {
			before, same = n, 0
		}
		return n > 0 && same >= 5
	})
}

// TestFewDescriptors exhausts the descriptors of a server. The server evicts idle connections, so it serves a client
// that retries, and has all acknowledged plants.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	prlimit, err := exec.LookPath("prlimit")
	rig.Need(t, err == nil, "prlimit of util-linux")
	program := rig.Build(t)
	db := filepath.Join(t.TempDir(), "plants.db")
	token := rig.Token(t, program, db, "a")
	server, err := rig.Start(t, program, db, []string{prlimit, "--nofile=64:64"})
	if err != nil {
		t.Fatal(err)
	}
	c := &rig.Client{Token: token}
	if o, status := c.Create(t.Context(), server.URL, 1, "before"); o != rig.Stored {
		t.Fatalf("before: %v, %d", o, status)
	}
	stop := besiege(t, server.URL, 100, hostile["idle"])
	stores(t, server, c, 2, "during")
	stop()
	stores(t, server, &rig.Client{Token: token}, 3, "after")
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	plants, err := rig.Export(t, program, db)
	if err != nil || len(plants) != 3 {
		t.Errorf("stored: %v, %v", plants, err)
	}
}

// stores sends a plant until the server acknowledges it, for at most a minute.
func stores(t *testing.T, server *rig.Server, c *rig.Client, id int64, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		o, _ := c.Create(ctx, server.URL, id, name)
		cancel()
		if o == rig.Stored {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: the server did not serve within a minute:\n%s", name, server.Log())
		}
	}
}

// gauge returns the value of a metric of the public listener, a whole number.
func gauge(t *testing.T, server *rig.Server, token, name string) int {
	t.Helper()
	text, err := server.Metrics(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^` + name + `\{listener="public"\} (\d+)$`).FindSubmatch(text)
	if match == nil {
		t.Fatalf("no %s in the metrics: %s", name, text)
	}
	n, _ := strconv.Atoi(string(match[1])) // digits
	return n
}
