package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"plantstore/faults/rig"
)

// outcome is the result of one request, as the client can see it.
type outcome int

const (
	unknown   outcome = iota // no response, or 503 with 50303: the outcome is unknown
	created                  // 200
	replayed                 // 200 with Idempotent-Replayed
	conflict                 // another plant has the id
	erased                   // 200 with one plant
	corrected                // 200
	missing                  // the operator's request found no plant, or the plant changed meanwhile
	busy                     // 503: the request changed nothing
	refused                  // any other response; each is a fault
	read                     // not a request: the plant in the export at the end
	unsent                   // no connection; not recorded
)

func (o outcome) String() string {
	return [...]string{
		"unknown", "created", "replayed", "conflict", "erased", "corrected", "missing", "busy", "refused", "read", "unsent",
	}[o]
}

// Error numbers of docs/reference/errors.md.
const (
	differentName  = 40041
	differentTag   = 40042
	plantNotFound  = 40402
	outcomeUnknown = 50303
)

// operation is one request with its outcome.
type operation struct {
	client    int
	kind      kind
	id        int64
	content   content
	call, end time.Duration // since the run began
	outcome   outcome
	code      int    // error number; 0 for a plant
	present   bool   // for a read: the export has a plant with that content
	raced     bool   // for missing: a correction may have changed the plant meanwhile
	wrong     string // a wrong response
}

func (o operation) String() string {
	text := fmt.Sprintf("client %d %v..%v %s %s: %s", o.client, o.call, o.end, o.kind, o.content, o.outcome)
	switch {
	case o.outcome == read && !o.present:
		return fmt.Sprintf("%v: not in the export", o.call)
	case o.outcome == read:
		return fmt.Sprintf("%v: the export has %s", o.call, o.content)
	case o.code != 0:
		text += fmt.Sprint(" ", o.code)
	}
	if o.wrong != "" {
		text += " " + o.wrong
	}
	return text
}

// sender sends requests and determines their outcomes.
type sender struct {
	program, db, token string

	http *http.Client
}

// body is a plant as sent.
type body struct {
	ID   int64   `json:"id"`
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

func (b body) content() content {
	c := content{name: b.Name}
	if b.Tag != nil {
		c.tag, c.tagged = *b.Tag, true
	}
	return c
}

func newBody(id int64, c content) body {
	b := body{ID: id, Name: c.name}
	if c.tagged {
		b.Tag = &c.tag
	}
	return b
}

// request returns the address and the body of the request of o.
func (o *operation) request(server *rig.Server) (url string, members any) {
	switch o.kind {
	case erase:
		return server.Admin + "/api/v1/plants/erase", map[string]any{"ids": []int64{o.id}}
	case correct:
		b := map[string]any{"name": o.content.name}
		if b["tag"] = o.content.tag; !o.content.tagged {
			delete(b, "tag")
			b["no_tag"] = true
		}
		return fmt.Sprint(server.Admin, "/api/v1/plants/", o.id, "/correct"), b
	default:
		return server.URL + "/plants", newBody(o.id, o.content)
	}
}

// run runs the operation o by a command beside the server, and sets the outcome of o.
func (s *sender) run(ctx context.Context, o *operation) error {
	args := []string{"erase", "--yes"}
	if o.kind == correct {
		args = []string{"correct", "--name", o.content.name, "--tag", o.content.tag}
		if !o.content.tagged {
			args = append(args[:3], "--no-tag")
		}
	}
	args = append(args, "--json", "--db", s.db, "--", fmt.Sprint(o.id))
	var faults bytes.Buffer
	command := exec.CommandContext(ctx, s.program, args...)
	command.Stderr = &faults
	text, err := command.Output()
	switch {
	case err == nil:
		o.setDone(text, created)
	case bytes.Contains(faults.Bytes(), []byte("has no plant")), bytes.Contains(faults.Bytes(), []byte("has changed")):
		o.outcome = missing
	default:
		o.outcome, o.wrong = refused, fmt.Sprintf("%v %s", err, &faults)
	}
	return ctx.Err()
}

// send sends the request of o and sets the outcome of o.
func (s *sender) send(ctx context.Context, server *rig.Server, o *operation) error {
	url, members := o.request(server)
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	response, err := s.http.Do(r)
	if err != nil {
		var fault *net.OpError
		if errors.As(err, &fault) && fault.Op == "dial" {
			o.outcome = unsent
		}
		return nil // the outcome is unknown
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(response.Body, 1<<20)); err != nil {
		return nil // an incomplete response: the outcome is unknown
	}
	o.setOutcome(response, text)
	return nil
}

// setOutcome sets the outcome from a response.
func (o *operation) setOutcome(response *http.Response, text []byte) {
	if response.StatusCode == http.StatusOK {
		stored := created
		if response.Header.Get("Idempotent-Replayed") == "true" {
			stored = replayed
		}
		o.setDone(text, stored)
		return
	}
	var problem struct{ Error int }
	_ = json.Unmarshal(text, &problem) // Error stays 0 for an unexpected body
	o.code = problem.Error
	switch {
	case o.code == differentName || o.code == differentTag:
		o.outcome = conflict
	case o.code == plantNotFound && o.kind == correct:
		o.outcome = missing
	case o.code == outcomeUnknown:
		o.outcome = unknown
	case response.StatusCode == http.StatusServiceUnavailable:
		o.outcome = busy
	default:
		o.outcome, o.wrong = refused, fmt.Sprintf("%d %s", response.StatusCode, text)
	}
}

// setDone sets the outcome from the output of an operation that did not fail. stored is the outcome of a create.
func (o *operation) setDone(text []byte, stored outcome) {
	var got struct {
		body

		Plants *int // of an erasure
	}
	err := json.Unmarshal(text, &got)
	wrong := err != nil || got.content() != o.content
	switch o.kind {
	case erase:
		o.outcome = missing
		wrong = err != nil || got.Plants == nil || *got.Plants > 1
		if !wrong && *got.Plants == 1 {
			o.outcome = erased
		}
	case correct:
		o.outcome = corrected
	default:
		o.outcome = stored
	}
	if wrong {
		o.wrong = string(text)
	}
}

// current is the running server. It is safe for concurrent use.
type current struct {
	mu      sync.Mutex
	server  *rig.Server   // guarded by mu; nil at first
	changed chan struct{} // guarded by mu; closed when server changes
}

func newCurrent() *current { return &current{changed: make(chan struct{})} }

func (c *current) set(s *rig.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// next waits for another server than ended, and returns it.
func (c *current) next(ctx context.Context, ended *rig.Server) (*rig.Server, error) {
	for {
		c.mu.Lock()
		s, changed := c.server, c.changed
		c.mu.Unlock()
		if s != nil && s != ended {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// client runs one operation at a time.
type client struct {
	sender

	number  int
	plan    plan
	claims  *claims
	current *current
	started time.Time

	ended   *rig.Server // a server that the client found ended
	records []operation
}

// run runs operations until all are claimed or ctx ends.
func (c *client) run(ctx context.Context) error {
	for {
		number, ok := c.claims.claim()
		if !ok {
			return nil
		}
		if err := c.do(ctx, c.plan.operation(number)); err != nil {
			return fmt.Errorf("client %d, operation %d: %w", c.number, number, err)
		}
	}
}

// do runs one operation until its outcome is known. An operation without p.retry ends with the first unknown outcome.
func (c *client) do(ctx context.Context, p planned) error {
	for {
		s, err := c.current.next(ctx, c.ended)
		if err != nil {
			return err
		}
		o := operation{client: c.number, kind: p.kind, id: p.id, content: p.content, call: time.Since(c.started)}
		if p.command {
			err = c.sender.run(ctx, &o)
		} else {
			err = c.send(ctx, s, &o)
		}
		o.end = time.Since(c.started)
		if o.outcome != unsent {
			c.records = append(c.records, o)
		}
		if err != nil {
			return err
		}
		switch o.outcome {
		case unknown, unsent:
			c.ended = nil
			if o.code == 0 && wait(ctx, s.Ended(), time.Second) {
				c.ended = s
			}
			if o.outcome == unknown && !p.retry {
				return nil
			}
		case busy:
			wait(ctx, nil, 10*time.Millisecond)
		default:
			return nil
		}
	}
}

// wait waits until a channel is closed, at most for limit, and reports whether it was closed.
func wait(ctx context.Context, closed <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
