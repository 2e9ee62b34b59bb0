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
	"sync"
	"time"

	"plantstore/faults/rig"
)

// outcome is what a client knows after one request.
type outcome int

const (
	unknown  outcome = iota // no answer, or one that says that it is not known
	created                 // 200
	replayed                // 200 with Idempotent-Replayed
	conflict                // another plant has the id
	busy                    // 503: this request stored nothing
	refused                 // any other answer: none that these operations may get
	read                    // not a request: what an export found in the end
	unsent                  // nobody listened; never recorded
)

func (o outcome) String() string {
	return [...]string{"unknown", "created", "replayed", "conflict", "busy", "refused", "read", "unsent"}[o]
}

// Numbers of the catalogue of errors, docs/reference/errors.md.
const (
	differentName  = 40041
	differentTag   = 40042
	outcomeUnknown = 50303
)

// operation is one request and what came of it.
type operation struct {
	client    int
	id        int64
	content   content
	call, end time.Duration // since the run began
	outcome   outcome
	code      int    // of the error, if there is one
	present   bool   // of a read: there is a plant, with that content
	answer    string // that should not have been given
}

func (o operation) String() string {
	text := fmt.Sprintf("client %d %v..%v %s: %s", o.client, o.call, o.end, o.content, o.outcome)
	switch {
	case o.outcome == read && !o.present:
		return fmt.Sprintf("%v: not in the export", o.call)
	case o.outcome == read:
		return fmt.Sprintf("%v: the export has %s", o.call, o.content)
	case o.code != 0:
		text += fmt.Sprint(" ", o.code)
	}
	if o.answer != "" {
		text += " " + o.answer
	}
	return text
}

// sender sends plants and tells every outcome apart.
type sender struct {
	token string
	http  *http.Client
}

// body is a plant as it is sent.
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

// send fills in the outcome of o.
func (s *sender) send(ctx context.Context, url string, o *operation) error {
	text, err := json.Marshal(newBody(o.id, o.content))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/plants", bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.http.Do(r)
	if err != nil {
		var fault *net.OpError
		if errors.As(err, &fault) && fault.Op == "dial" {
			o.outcome = unsent
		}
		return nil // the outcome is unknown, which is not an error
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(answer.Body, 1<<20)); err != nil {
		return nil // an answer that was cut off is none
	}
	o.understand(answer, text)
	return nil
}

// understand reads an answer.
func (o *operation) understand(answer *http.Response, text []byte) {
	if answer.StatusCode == http.StatusOK {
		o.outcome = created
		if answer.Header.Get("Idempotent-Replayed") == "true" {
			o.outcome = replayed
		}
		var got body
		if err := json.Unmarshal(text, &got); err != nil || got.content() != o.content {
			o.answer = string(text)
		}
		return
	}
	var refusal struct{ Error int }
	_ = json.Unmarshal(text, &refusal) // stays 0, which is none of the numbers
	o.code = refusal.Error
	switch {
	case o.code == differentName || o.code == differentTag:
		o.outcome = conflict
	case o.code == outcomeUnknown:
		o.outcome = unknown
	case answer.StatusCode == http.StatusServiceUnavailable:
		o.outcome = busy
	default:
		o.outcome, o.answer = refused, fmt.Sprintf("%d %s", answer.StatusCode, text)
	}
}

// door tells clients which server there is. It is safe for concurrent use.
type door struct {
	mu     sync.Mutex
	server *rig.Server   // guarded by mu; nil at first
	opened chan struct{} // guarded by mu; closed when server changes
}

func newDoor() *door { return &door{opened: make(chan struct{})} }

func (d *door) open(s *rig.Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = s
	close(d.opened)
	d.opened = make(chan struct{})
}

// enter waits for a server that is another than not.
func (d *door) enter(ctx context.Context, not *rig.Server) (*rig.Server, error) {
	for {
		d.mu.Lock()
		s, opened := d.server, d.opened
		d.mu.Unlock()
		if s != nil && s != not {
			return s, nil
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// client does operations one after the other.
type client struct {
	sender

	number int
	plan   plan
	claims *claims
	door   *door
	begun  time.Time

	gone    *rig.Server // it was noticed to be gone
	records []operation
}

// run returns when there are no more operations, or with ctx.
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

// do sends one plant until what became of it is known, unless it is one that
// is left alone.
func (c *client) do(ctx context.Context, p planned) error {
	for {
		s, err := c.door.enter(ctx, c.gone)
		if err != nil {
			return err
		}
		o := operation{client: c.number, id: p.id, content: p.content, call: time.Since(c.begun)}
		err = c.send(ctx, s.URL, &o)
		o.end = time.Since(c.begun)
		if o.outcome != unsent {
			c.records = append(c.records, o)
		}
		if err != nil {
			return err
		}
		switch o.outcome {
		case unknown, unsent:
			c.gone = nil
			if o.code == 0 && wait(ctx, s.Ended(), time.Second) {
				c.gone = s
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

// wait waits for a channel to be closed, with bounds, and reports whether it was.
func wait(ctx context.Context, closed <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
