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

// outcome is the result of one request, as the client can see it.
type outcome int

const (
	unknown    outcome = iota // no response, or 503 with 50303: the outcome is unknown
	created                   // 200
	replayed                  // 200 with Idempotent-Replayed
	conflict                  // another plant has the id
	busy                      // 503: the request stored nothing
	unexpected                // any other response; no server may send it to a valid plant
	unsent                    // the connection was refused
)

func (o outcome) String() string {
	return [...]string{"unknown", "created", "replayed", "conflict", "busy", "unexpected", "unsent"}[o]
}

// final reports whether the outcome of the plant is known, so that the client need
// not send it again.
func (o outcome) final() bool { return o == created || o == replayed || o == conflict }

// Error numbers of docs/reference/errors.md.
const (
	differentName  = 40041
	differentTag   = 40042
	outcomeUnknown = 50303
)

// content is a plant without its id. No tag is the empty string.
type content struct{ name, tag string }

// randomContent returns content of random length, so that some requests need
// several packets.
func randomContent(random *rand.Rand) content {
	c := content{name: strings.Repeat("Fällt ’s ", random.IntN(200)) + fmt.Sprint(random.Uint64())}
	if random.IntN(2) == 0 {
		c.tag = fmt.Sprint("tag ", random.IntN(100))
	}
	return c
}

// operation is one request with its outcome.
type operation struct {
	id      int64
	content content
	outcome outcome
	end     time.Time
	status  int    // 0 without a response
	detail  string // the response, unless it is the plant; the error without a response
}

func (o *operation) String() string {
	return fmt.Sprintf("plant %d %.30q tagged %q: %s %s", o.id, o.content.name, o.content.tag, o.outcome, o.detail)
}

// sender sends plants to one server.
type sender struct {
	url   string
	token string
	http  *http.Client
}

func newSender(url, token string, connections int) *sender {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	return &sender{url, token, &http.Client{Timeout: time.Minute, Transport: transport}}
}

// send sends a plant once.
func (s *sender) send(ctx context.Context, id int64, c content) operation {
	o := operation{id: id, content: c}
	header, text, err := s.post(ctx, &o)
	o.end = time.Now()
	var netErr *net.OpError
	switch {
	case err == nil:
		o.classify(header, text)
	case errors.As(err, &netErr) && netErr.Op == "dial":
		o.outcome, o.detail = unsent, err.Error()
	default:
		o.detail = err.Error()
	}
	return o
}

// post sends the plant of o, and sets the status of the response.
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
	response, err := s.http.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	o.status = response.StatusCode
	text, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.Header, text, err
}

// classify sets the outcome from a response.
func (o *operation) classify(header http.Header, text []byte) {
	var body struct {
		Error     int
		Name, Tag string
	}
	_ = json.Unmarshal(text, &body) // invalid JSON has no plant and no error number
	o.detail = fmt.Sprintf("%d %s", o.status, text)
	switch ok := o.status == http.StatusOK; {
	case ok && (content{body.Name, body.Tag}) != o.content:
		o.outcome = unexpected // the response has another plant
	case ok && header.Get("Idempotent-Replayed") == "true":
		o.outcome, o.detail = replayed, ""
	case ok:
		o.outcome, o.detail = created, ""
	case body.Error == differentName, body.Error == differentTag:
		o.outcome = conflict
	case body.Error == outcomeUnknown:
		o.outcome = unknown
	case o.status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
		o.outcome = busy
	default:
		o.outcome = unexpected
	}
}
