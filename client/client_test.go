//go:build !windows

package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/client"
)

// freeID returns an id that no other test uses.
func freeID() int64 { return rand.Int64() }

// TestCreate creates plants with every kind of content, twice.
func TestCreate(t *testing.T) {
	t.Parallel()
	c := shared.client(t)
	for _, n := range []client.NewPlant{
		{ID: freeID(), Name: "Quercus robur"},
		{ID: freeID(), Name: "", Tag: new("")},
		{ID: freeID(), Name: "Ginkgo biloba", Tag: new("tree")},
		{
			ID: -freeID(), Name: "ハナミズキ نخلة \u202e<&>\"\\\n\u2028\U0001f335",
			Tag: new(strings.Repeat("é", 9000)),
		},
	} {
		want := client.Plant{Name: n.Name, Tag: n.Tag}
		for _, want.Replayed = range []bool{false, true} {
			got, err := c.Create(t.Context(), n)
			if diff := gocmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%d: %v, -want +got:\n%s", n.ID, err, diff)
			}
		}
	}
	for _, id := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		if _, err := c.Create(t.Context(), client.NewPlant{ID: id, Name: "bound"}); err != nil {
			t.Error(err)
		}
	}
}

// TestRefused compares the errors of requests that no attempt can mend.
func TestRefused(t *testing.T) {
	t.Parallel()
	id := freeID()
	stored := client.NewPlant{ID: id, Name: "Acer", Tag: new("tree")}
	if _, err := shared.client(t).Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		n       client.NewPlant
		options []client.Option
		want    client.Error
	}{
		"other name": {n: client.NewPlant{ID: id, Name: "Aucuba", Tag: new("tree")}, want: client.Error{
			Status: 400, Code: client.ExistsWithDifferentName,
			Message: "a plant with this id is stored with a different name",
		}},
		"without the tag": {n: client.NewPlant{ID: id, Name: "Acer"}, want: client.Error{
			Status: 400, Code: client.ExistsWithDifferentTag,
		}},
		"NUL": {n: client.NewPlant{Name: "a\x00"}, want: client.Error{Status: 400, Code: client.NameHasNUL}},
		"not UTF-8": {n: client.NewPlant{Tag: new("\xff")}, want: client.Error{
			Code: client.BodyNotUTF8, Message: "name or tag is not valid UTF-8",
		}},
		"too large": {n: client.NewPlant{Name: strings.Repeat("x", 65<<10)}, want: client.Error{
			Status: 413, Code: client.BodyTooLarge,
		}},
		"unknown token": {options: []client.Option{client.WithToken("pst_unknown")}, want: client.Error{
			Status: 401, Code: client.CredentialInvalid,
		}},
		"without a token": {options: []client.Option{client.WithTokenFunc(nil)}, want: client.Error{
			Status: 401, Code: client.CredentialMissing,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := row.want
			if want.ID = row.n.ID; want.Status != 0 {
				want.Attempts = 1
			}
			_, err := shared.client(t, row.options...).Create(t.Context(), row.n)
			e, ok := errors.AsType[*client.Error](err)
			if !ok || !errors.Is(err, want.Code) || errors.Is(err, client.Internal) ||
				errors.Is(err, client.ErrUnknown) || len(e.RequestID) != 16 || e.Message == "" {
				t.Fatalf("got %#v", err)
			}
			want.Message = cmp.Or(want.Message, e.Message)
			want.RequestID = e.RequestID
			if diff := gocmp.Diff(&want, e); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestCreateJSON shows that the server gets a plant unchanged, with what only the server may refuse.
func TestCreateJSON(t *testing.T) {
	t.Parallel()
	c := shared.client(t)
	id := freeID()
	for _, replayed := range []bool{false, true} {
		object := fmt.Appendf(nil, `{"id":%d.0,"name":"caf\u00e9","shade":null}`+"\r\n", id)
		got, err := c.CreateJSON(t.Context(), object)
		if want := (client.Plant{Name: "café", Replayed: replayed}); err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	for object, code := range map[string]client.Code{
		"": client.BodyMissing, `{"id":1,"name":"\ud800"}`: client.LoneSurrogate,
		"{\"id\":1,\"name\":\"caf\xe9\"}": client.BodyNotUTF8,
	} {
		_, err := c.CreateJSON(t.Context(), []byte(object))
		if !errors.Is(err, code) || !strings.HasPrefix(err.Error(), "create plant: ") {
			t.Errorf("%q: got %v, want %v", object, err, code)
		}
	}
}

// TestKilledServer kills the server several times below CreateAll. Each create succeeds, and the store has each plant
// once.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := own(t)
	const plants, kills = 4000, 4
	due, done, replayed := make(chan struct{}, kills), 0, 0
	var killer sync.WaitGroup
	killer.Go(func() {
		for range due {
			s.stop(syscall.SIGKILL)
			if err := s.start(); err != nil {
				t.Error(err)
			}
		}
	})
	for o := range s.client(t).CreateAll(t.Context(), numbered(plants)) {
		if done++; done%(plants/(kills+1)) == 0 && done < plants {
			due <- struct{}{}
		}
		if o.Err != nil {
			t.Error(o.Err)
		}
		if o.Plant.Replayed {
			replayed++
		}
	}
	close(due)
	killer.Wait()
	t.Logf("%d kills, %d replays", kills, replayed)
	out, err := exec.Command(s.program, "verify", s.db()).Output()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf(" %d plants,", plants)) {
		t.Errorf("verify: %v, %s", describe(err), out)
	}
}

// TestCreateAllOutcomes tests that each plant has one outcome, that of its own create.
func TestCreateAllOutcomes(t *testing.T) {
	t.Parallel()
	base := rand.Int64N(1<<62) &^ 0xffff
	c := shared.client(t, client.WithConcurrency(7))
	seen := map[int64]bool{}
	for o := range c.CreateAll(t.Context(), func(yield func(client.NewPlant) bool) {
		for i := range int64(500) {
			name := fmt.Sprint(i)
			if i%10 == 3 {
				name = "\x00"
			}
			if !yield(client.NewPlant{ID: base + i, Name: name}) {
				return
			}
		}
	}) {
		i := o.NewPlant.ID - base
		if seen[i] || i%10 == 3 != errors.Is(o.Err, client.NameHasNUL) || o.Err == nil && o.Plant.Name != fmt.Sprint(i) {
			t.Errorf("%d: %+v", i, o)
		}
		seen[i] = true
	}
	if len(seen) != 500 {
		t.Errorf("%d outcomes", len(seen))
	}
}

// TestCreateAllEnds tests that the loop ends when the caller leaves it and when the context ends, with an endless
// sequence.
func TestCreateAllEnds(t *testing.T) {
	t.Parallel()
	c := shared.client(t)
	base, returned := freeID(), false
	endless := func(yield func(client.NewPlant) bool) {
		defer func() { returned = true }()
		for id := base; yield(client.NewPlant{ID: id, Name: "endless"}); id++ {
		}
	}
	outcomes := 0
	for range c.CreateAll(t.Context(), endless) {
		if outcomes++; outcomes == 100 {
			break
		}
	}
	if !returned {
		t.Error("the sequence still runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for o := range c.CreateAll(ctx, endless) {
		if outcomes++; outcomes == 200 {
			cancel()
		}
		if o.Err != nil && !errors.Is(o.Err, context.Canceled) {
			t.Error(o.Err)
		}
	}
	for range c.CreateAll(ctx, numbered(0)) {
		t.Error("an outcome without a plant")
	}
}

// TestHeaders tests that the server receives the header of WithHeaders, and the credential of WithTokenFunc.
func TestHeaders(t *testing.T) {
	t.Parallel()
	type key struct{}
	c := shared.client(t,
		client.WithTokenFunc(func(ctx context.Context) (string, error) {
			if ctx.Value(key{}) == nil {
				return "", errors.New("no session")
			}
			return shared.token, nil
		}),
		client.WithHeaders(func(ctx context.Context, h http.Header) {
			if id, ok := ctx.Value(key{}).(string); ok {
				h.Set("X-Request-Id", id)
			}
		}))
	_, err := c.Create(context.WithValue(t.Context(), key{}, "my-own-id"), client.NewPlant{Name: "\x00"})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.RequestID != "my-own-id" {
		t.Error(err)
	}
	_, err = c.Create(t.Context(), client.NewPlant{ID: 7})
	if want := "create plant 7: token: no session [request "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
	for _, token := range []string{"a\r\nb", "ü", "a b"} {
		_, err := shared.client(t, client.WithToken(token)).Create(t.Context(), client.NewPlant{})
		if err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// TestRefusedHeaders tests that no header of WithHeaders can change the connection, the end of the request or its
// target: the create fails at once, and nothing is sent.
func TestRefusedHeaders(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // ends with the listener
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			t.Error("a connection")
			_ = conn.Close()
		}
	}()
	for name, value := range map[string]string{
		"Content-Length": "1", "content-length": "1", "CONTENT-LENGTH": "1", "Transfer-Encoding": "chunked",
		"tRANSFER-eNCODING": "identity", "Host": "other.example", "host": "other.example", "Connection": "close",
		"Keep-Alive": "5", "Proxy-Connection": "close", "Expect": "100-continue", "Te": "trailers", "Trailer": "A",
		"Upgrade": "h2c",
		"":        "1", " Host": "1", "Host ": "1", "Content-Length\t": "1", "Content-Length:": "1", "A\r\nHost": "1",
		"A\x00": "1", "Ä": "1",
		"X-Line-End": "a\r\nContent-Length: 0", "X-CR": "a\r", "X-LF": "a\n", "X-NUL": "\x00", "X-DEL": "\x7f",
	} {
		c := newClient(t, "http://"+listener.Addr().String(), client.WithRetryFor(200*time.Millisecond),
			client.WithHeaders(func(_ context.Context, h http.Header) { h[name] = []string{value} }))
		_, err := c.Create(t.Context(), client.NewPlant{})
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Unknown || e.Attempts != 1 || !strings.Contains(err.Error(), fmt.Sprintf("the header %q", name)) {
			t.Errorf("%q: %q: %v", name, value, err)
		}
	}
}

// TestBaseURL tests the base URLs that New refuses.
func TestBaseURL(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"":                        `base URL "": use the form https://host/path`,
		"plants.example":          `base URL "plants.example": use the form https://host/path`,
		"ftp://plants.example":    `base URL "ftp://plants.example": use the form https://host/path`,
		"http://":                 `base URL "http:": use the form https://host/path`,
		"http://a:b@host":         `base URL "http://a:xxxxx@host": omit user, query and fragment`,
		"http://host?":            `base URL "http://host?": omit user, query and fragment`,
		"http://host#a":           `base URL "http://host#a": omit user, query and fragment`,
		"http://host\x00":         `base URL: parse "http://host\x00": net/url: invalid control character in URL`,
		"http://host/a/../b":      "",
		"HTTPS://host:1234/a/b//": "",
	} {
		_, alone := client.New(base)
		_, fallback := client.New("http://host", client.WithFallback("http://host", base))
		for _, err := range []error{alone, fallback} {
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != want {
				t.Errorf("%q: got %q, want %q", base, text, want)
			}
		}
	}
}
