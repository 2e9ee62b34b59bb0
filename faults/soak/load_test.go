package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// client sends one request after the other.
type client struct {
	*run

	http  *http.Client
	token string // another than the run's
}

// request does what the seed has for that number.
func (c *client) request(number uint64) {
	chance := c.plan.request(number)
	draw := chance.IntN(100)
	old, ok := c.ledger.old(chance)
	switch {
	case draw < 60 || !ok:
		c.create(number)
	case draw < 75:
		c.replay(old)
	case draw < 85:
		c.conflict(old, chance)
	case draw < 90:
		row := invalid[chance.IntN(len(invalid))]
		c.refused(row.code, c.bearer(), strings.ReplaceAll(row.body, "ID", fmt.Sprint(c.plan.id(number))))
	case draw < 95:
		row := strangers[chance.IntN(len(strangers))]
		c.refused(row.code, row.authorization, encode(c.plan.plant(number)))
	default:
		c.abort(number, chance)
	}
}

// invalid are bodies that are refused, with a number of docs/reference/errors.md. ID
// stands for an id that nothing is stored under. The last one is too large.
var invalid = []struct {
	code int
	body string
}{
	{40001, ``},
	{40002, `{"id":ID,"name":"Made for soaking"`},
	{40006, `{"id":ID,"name":"Made for soaking","name":"twice"}`},
	{40012, `{"id":"ID","name":"Made for soaking"}`},
	{40021, `{"id":ID}`},
	{40031, `{"id":ID,"name":"Made for soaking","tag":null}`},
	{41301, `{"id":ID,"name":"` + strings.Repeat("Made for soaking ", 4<<10) + `"}`},
}

// strangers are credentials that are refused.
var strangers = []struct {
	code          int
	authorization string
}{
	{40051, "Bearer"},
	{40101, "Basic c29hazpzb2Fr"},
	{40102, "Bearer pst_that_nobody_made"},
}

func (c *client) bearer() string {
	if c.token != "" {
		return "Bearer " + c.token
	}
	return "Bearer " + c.run.token
}

// answer is what a request came to.
type answer struct {
	status   int
	code     int // of the error, if it is one
	replayed bool
	content  string // encoded, if it is none
}

// create sends a new plant.
func (c *client) create(number uint64) {
	p := c.plan.plant(number)
	c.ledger.send(number)
	if c.expect(answer{status: http.StatusOK, content: encode(p.content)}, c.bearer(), encode(p)) {
		c.ledger.acknowledge(number)
	}
}

// replay sends a plant that is stored.
func (c *client) replay(old uint64) {
	p := c.plan.plant(old)
	c.expect(answer{status: http.StatusOK, replayed: true, content: encode(p.content)}, c.bearer(), encode(p))
}

// conflict sends another plant under the id of one that is stored.
func (c *client) conflict(old uint64, chance *rand.Rand) {
	p := c.plan.plant(old)
	if chance.IntN(2) == 0 {
		p.Name += ", otherwise"
		c.refused(40041, c.bearer(), encode(p))
		return
	}
	other := "otherwise"
	p.Tag = &other
	c.refused(40042, c.bearer(), encode(p))
}

// refused sends what is refused, with that number.
func (c *client) refused(code int, authorization, body string) {
	c.expect(answer{status: code / 100, code: code}, authorization, body)
}

// expect sends a body, and reports whether the answer is the one that is wanted.
func (c *client) expect(want answer, authorization, body string) bool {
	got, err := c.send(authorization, body)
	switch {
	case err != nil:
		c.faults.add(wrongAnswer, "want %+v: %v", want, err)
	case got.status == http.StatusServiceUnavailable:
		c.busy.Add(1) // the disk is slow; a create that meets this is not acknowledged
	case got != want:
		c.faults.add(wrongAnswer, "got %+v, want %+v", got, want)
	}
	return err == nil && got == want
}

// send sends a body.
func (c *client) send(authorization, body string) (a answer, err error) {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.server.URL+"/plants", strings.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.status, a.replayed = response.StatusCode, response.Header.Get("Idempotent-Replayed") == "true"
	if a.status == http.StatusOK {
		var stored content
		err = json.Unmarshal(text, &stored)
		a.content = encode(stored)
		return a, err
	}
	var refusal struct{ Error int }
	err = json.Unmarshal(text, &refusal)
	a.code = refusal.Error
	return a, err
}

// abort sends a new plant, or a part of it, and leaves without the answer.
func (c *client) abort(number uint64, chance *rand.Rand) {
	body := encode(c.plan.plant(number))
	text := fmt.Sprintf("POST /plants HTTP/1.1\r\nHost: soak\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.bearer(), len(body), body)
	if chance.IntN(2) == 0 {
		c.ledger.send(number)
	} else {
		text = text[:chance.IntN(len(text))]
	}
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(c.server.URL, "http://"), time.Minute)
	if err != nil {
		c.faults.add(wrongAnswer, "connect: %v", err)
		return
	}
	defer conn.Close()
	if chance.IntN(2) == 0 {
		_ = conn.(*net.TCPConn).SetLinger(0) // the connection is reset, and not closed in order
	}
	_, _ = io.WriteString(conn, text) // nobody knows what becomes of it
}
