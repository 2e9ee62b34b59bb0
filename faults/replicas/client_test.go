package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"plantstore/client"
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

// final reports whether the outcome of the plant is known, so that the client need not send it again.
func (o outcome) final() bool { return o == created || o == replayed || o == conflict }

// content is a plant without its id. No tag is the empty string.
type content struct{ name, tag string }

// randomContent returns content of random length, so that some requests need several packets.
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
type sender struct{ plants *client.Client }

func newSender(url, token string) *sender {
	plants, err := client.New(url, client.WithToken(token), client.WithRetryFor(0), client.WithAttemptTimeout(time.Minute))
	if err != nil {
		panic(err) // a server of the harness has a valid URL
	}
	return &sender{plants}
}

// send sends a plant once.
func (s *sender) send(ctx context.Context, id int64, c content) operation {
	o := operation{id: id, content: c}
	n := client.NewPlant{ID: id, Name: c.name}
	if c.tag != "" {
		n.Tag = &c.tag
	}
	p, err := s.plants.Create(ctx, n)
	o.end = time.Now()
	if e, ok := errors.AsType[*client.Error](err); ok {
		o.status, o.detail = e.Status, e.Error()
		o.outcome = outcomeOf(e)
		return o
	}
	o.status = http.StatusOK
	switch got := (content{name: p.Name}); {
	case p.Tag != nil && *p.Tag != c.tag, p.Tag == nil && c.tag != "", got.name != c.name:
		o.outcome, o.detail = unexpected, fmt.Sprintf("the response has another plant: %+v", p)
	case p.Replayed:
		o.outcome = replayed
	default:
		o.outcome = created
	}
	return o
}

// outcomeOf returns the outcome of a request without a plant in the response.
func outcomeOf(e *client.Error) outcome {
	switch {
	case e.Status == 0 && !e.Unknown:
		return unsent
	case e.Status == 0, e.Code == client.OutcomeUnknown:
		return unknown
	case e.Code == client.ExistsWithDifferentName, e.Code == client.ExistsWithDifferentTag:
		return conflict
	case e.Status == http.StatusServiceUnavailable && e.Code != 0 && e.RetryAfter > 0:
		return busy
	}
	return unexpected
}
