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

// client sends one request at a time.
type client struct {
	*run

	http  *http.Client
	token string // instead of the run's; "" for none
}

// request sends the request that the seed determines for that number.
func (c *client) request(number uint64) {
	random := c.plan.request(number)
	draw := random.IntN(100)
	old, ok := c.ledger.old(random)
	switch {
	case draw < 60 || !ok:
		c.create(number)
	case draw < 75:
		c.replay(old)
	case draw < 85:
		c.conflict(old, random)
	case draw < 90:
		row := invalid[random.IntN(len(invalid))]
		c.refused(row.code, c.bearer(), strings.ReplaceAll(row.body, "ID", fmt.Sprint(c.plan.id(number))))
	case draw < 95:
		row := badCredentials[random.IntN(len(badCredentials))]
		c.refused(row.code, row.authorization, encode(c.plan.plant(number)))
	default:
		c.abort(number, random)
	}
}

// invalid are invalid bodies with their error numbers of docs/reference/errors.md. ID stands for an unused id. The last
// body is too large.
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

// badCredentials are invalid credentials with their error numbers.
var badCredentials = []struct {
	code          int
	authorization string
}{
	{40051, "Bearer"},
	{40101, "Basic c29hazpzb2Fr"},
	{40102, "Bearer pst_unknown"},
}

func (c *client) bearer() string {
	if c.token != "" {
		return "Bearer " + c.token
	}
	return "Bearer " + c.run.token
}

// answer is a response of the server.
type answer struct {
	status   int
	code     int // error number; 0 for a plant
	replayed bool
	content  string // encoded plant; "" for an error
}

// create sends a new plant.
func (c *client) create(number uint64) {
	p := c.plan.plant(number)
	c.ledger.send(number)
	if c.expect(answer{status: http.StatusOK, content: encode(p.content)}, c.bearer(), encode(p)) {
		c.ledger.acknowledge(number)
	}
}

// replay sends a stored plant again.
func (c *client) replay(old uint64) {
	p := c.plan.plant(old)
	c.expect(answer{status: http.StatusOK, replayed: true, content: encode(p.content)}, c.bearer(), encode(p))
}

// conflict sends another plant under the id of a stored one.
func (c *client) conflict(old uint64, random *rand.Rand) {
	p := c.plan.plant(old)
	if random.IntN(2) == 0 {
		p.Name += ", otherwise"
		c.refused(40041, c.bearer(), encode(p))
		return
	}
	other := "otherwise"
	p.Tag = &other
	c.refused(40042, c.bearer(), encode(p))
}

// refused sends a request that must fail with that error number.
func (c *client) refused(code int, authorization, body string) {
	c.expect(answer{status: code / 100, code: code}, authorization, body)
}

// expect sends a body, and reports whether the response is as wanted.
func (c *client) expect(want answer, authorization, body string) bool {
	got, err := c.send(authorization, body)
	switch {
	case err != nil:
		c.faults.add(wrongResponse, "want %+v: %v", want, err)
	case got.status == http.StatusServiceUnavailable:
		c.busy.Add(1) // the disk is slow
	case got != want:
		c.faults.add(wrongResponse, "got %+v, want %+v", got, want)
	}
	return err == nil && got == want
}

// send sends a body and returns the response.
func (c *client) send(authorization, body string) (a answer, err error) {
	url := c.server.URL + "/plants"
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, url, strings.NewReader(body))
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
	var problem struct{ Error int }
	err = json.Unmarshal(text, &problem)
	a.code = problem.Error
	return a, err
}

// abort sends a new plant in whole or in part, and closes the connection without reading the response.
func (c *client) abort(number uint64, random *rand.Rand) {
	body := encode(c.plan.plant(number))
	text := fmt.Sprintf("POST /plants HTTP/1.1\r\nHost: soak\r\nAuthorization: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.bearer(), len(body), body)
	if random.IntN(2) == 0 {
		c.ledger.send(number)
	} else {
		text = text[:random.IntN(len(text))]
	}
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(c.server.URL, "http://"), time.Minute)
	if err != nil {
		c.faults.add(wrongResponse, "connect: %v", err)
		return
	}
	defer conn.Close()
	if random.IntN(2) == 0 {
		_ = conn.(*net.TCPConn).SetLinger(0) // Close resets the connection
	}
	_, _ = io.WriteString(conn, text) // the outcome is unknown
}
