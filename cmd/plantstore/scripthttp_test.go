package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func cmdPost(ts *testscript.TestScript, _ *script, args []string) error {
	r, err := newCreate(context.Background(), args[1], args[2], args[3])
	if err != nil {
		return err
	}
	send := send
	if args[0] == "503" {
		send = sendOnce
	}
	got, err := send(http.DefaultClient, r)
	if err != nil {
		return err
	}
	fmt.Fprint(ts.Stdout(), got.body)
	if strconv.Itoa(got.status) != args[0] {
		return fmt.Errorf("status %d, want %s: %s", got.status, args[0], got.body)
	}
	return nil
}

func cmdGet(ts *testscript.TestScript, _ *script, args []string) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, args[1], http.NoBody)
	if err != nil {
		return err
	}
	if len(args) > 2 {
		request.Header.Set("Authorization", "Bearer "+args[2])
	}
	status, body := 0, []byte(nil)
	late := poll("status "+args[0], func() bool {
		var response *http.Response
		if response, err = http.DefaultClient.Do(request); err != nil {
			return true
		}
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		status = response.StatusCode
		// A server that was stopped for a second is ready again only when its store has responded.
		return err != nil || status != http.StatusServiceUnavailable || args[0] != "200"
	})
	if err = errors.Join(err, late); err != nil {
		return err
	}
	if strconv.Itoa(status) != args[0] {
		return fmt.Errorf("status %d, want %s", status, args[0])
	}
	_, err = ts.Stdout().Write(body)
	return err
}

func cmdAccepted(ts *testscript.TestScript, _ *script, args []string) error {
	return within(time.Second, func() (bool, error) {
		status, body, err := post(context.Background(), http.DefaultClient, args[0], args[1], args[2])
		if err == nil && status != http.StatusOK && status != http.StatusUnauthorized {
			err = fmt.Errorf("status %d, want 200: %s", status, body)
		}
		return status == http.StatusOK, err
	})
}

func cmdRefused(ts *testscript.TestScript, _ *script, args []string) error {
	return awaitRefusal(context.Background(), http.DefaultClient, args[0], args[1])
}

// awaitRefusal posts with a revoked token until the response is 401, for at most a second.
func awaitRefusal(ctx context.Context, c *http.Client, url, token string) error {
	return within(time.Second, func() (bool, error) {
		status, _, err := post(ctx, c, url, token, `{}`)
		return status == http.StatusUnauthorized, err
	})
}

// stopwatch measures the time of repeated requests without the pauses of the machine: a request that takes longer
// than stepMax counts as stepMax, because the server or the test may have been stopped.
type stopwatch struct {
	at  time.Time // when the last step ended
	sum time.Duration
}

const stepMax = 100 * time.Millisecond

func newStopwatch() *stopwatch { return &stopwatch{at: time.Now()} }

// step ends a step and returns the time of all steps.
func (s *stopwatch) step() time.Duration {
	now := time.Now()
	s.sum += min(now.Sub(s.at), stepMax)
	s.at = now
	return s.sum
}

// within calls try until it returns true or an error. A call that begins after the limit on a stopwatch must return
// true.
func within(limit time.Duration, try func() (bool, error)) error {
	watch := newStopwatch()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		late := watch.step()
		ok, err := try()
		switch {
		case ok || err != nil:
			return err
		case late > limit:
			return fmt.Errorf("no success within %s; limit %s", late, limit)
		}
		<-tick.C
	}
}

const slowBody = `{"id": 77, "name": "Slow"}`

// cmdBeginPost sends the head of a request. The server's 100 (Continue) shows that it waits for the body.
func cmdBeginPost(ts *testscript.TestScript, s *script, args []string) error {
	u, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return err
	}
	s.conns[args[0]] = conn
	fmt.Fprintf(conn, "POST /plants HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		u.Host, args[2], len(slowBody))
	const want = "HTTP/1.1 100 Continue\r\n\r\n"
	response := make([]byte, len(want))
	if _, err := io.ReadFull(conn, response); err != nil {
		return fmt.Errorf("%w after %q", err, response)
	}
	if string(response) != want {
		return fmt.Errorf("got %q, want %q", response, want)
	}
	return nil
}

func cmdEndPost(_ *testscript.TestScript, s *script, args []string) error {
	conn := s.conns[args[0]]
	fmt.Fprint(conn, slowBody)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if strconv.Itoa(response.StatusCode) != args[1] {
		return fmt.Errorf("status %d, want %s", response.StatusCode, args[1])
	}
	return nil
}
