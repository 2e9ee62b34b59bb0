package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// outcome is what a client knows after one request.
type outcome int

const (
	unknown  outcome = iota // no answer, or one that says that it is not known
	created                 // 200
	replayed                // 200 with Idempotent-Replayed
	conflict                // another plant has the id
	busy                    // 503: this request stored nothing
	refused                 // any other answer: none that a plant may get
	unsent                  // nobody listened
)

func (o outcome) String() string {
	return [...]string{"unknown", "created", "replayed", "conflict", "busy", "refused", "unsent"}[o]
}

// final reports whether a client has learnt what it wanted to know.
func (o outcome) final() bool { return o == created || o == replayed || o == conflict }

// Numbers of the catalogue of errors, docs/reference/errors.md.
const (
	differentName  = 40041
	differentTag   = 40042
	outcomeUnknown = 50303
)

// content is what a plant is besides its id; no tag is an empty one here.
type content struct{ name, tag string }

// randomContent is of any length, so that a request has one packet or several.
func randomContent(chance *rand.Rand) content {
	c := content{name: strings.Repeat("Fällt ’s ", chance.IntN(200)) + fmt.Sprint(chance.Uint64())}
	if chance.IntN(2) == 0 {
		c.tag = fmt.Sprint("tag ", chance.IntN(100))
	}
	return c
}

// operation is one request and what came of it.
type operation struct {
	id      int64
	content content
	outcome outcome
	end     time.Time
	status  int    // of the answer; 0 if there is none
	said    string // the answer, if it is none of a plant; the error, if there is none
}

func (o *operation) String() string {
	return fmt.Sprintf("plant %d %.30q tagged %q: %s %s", o.id, o.content.name, o.content.tag, o.outcome, o.said)
}

// sender sends plants to one server.
type sender struct {
	url   string
	token string
	http  *http.Client
}

func newSender(url, token string, connections int) *sender {
	return &sender{url, token, &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: connections}}}
}

// send sends a plant once.
func (s *sender) send(ctx context.Context, id int64, c content) operation {
	o := operation{id: id, content: c}
	header, text, err := s.post(ctx, &o)
	o.end = time.Now()
	var fault *net.OpError
	switch {
	case err == nil:
		o.understand(header, text)
	case errors.As(err, &fault) && fault.Op == "dial":
		o.outcome, o.said = unsent, err.Error()
	default:
		o.said = err.Error()
	}
	return o
}

// post sends the plant of o, and fills in the status of the answer.
func (s *sender) post(ctx context.Context, o *operation) (header http.Header, text []byte, err error) {
	text, err = json.Marshal(struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
		Tag  string `json:"tag,omitempty"`
	}{o.id, o.content.name, o.content.tag})
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/plants", bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.http.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	o.status = answer.StatusCode
	text, err = io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.Header, text, err
}

// understand reads an answer.
func (o *operation) understand(header http.Header, text []byte) {
	var said struct {
		Error     int
		Name, Tag string
	}
	_ = json.Unmarshal(text, &said) // what it does not fill in is no plant and no number
	o.said = fmt.Sprintf("%d %s", o.status, text)
	switch ok := o.status == http.StatusOK; {
	case ok && (content{said.Name, said.Tag}) != o.content:
		o.outcome = refused // it answers another plant than was sent
	case ok && header.Get("Idempotent-Replayed") == "true":
		o.outcome, o.said = replayed, ""
	case ok:
		o.outcome, o.said = created, ""
	case said.Error == differentName, said.Error == differentTag:
		o.outcome = conflict
	case said.Error == outcomeUnknown:
		o.outcome = unknown
	case o.status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
		o.outcome = busy
	default:
		o.outcome = refused
	}
}
