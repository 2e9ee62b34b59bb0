package adminapi

import (
	"net/http"
	"strconv"
	"time"

	"plantstore/internal/admin"
)

func (a *API) getPlant(c *call) (any, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	return a.service.Plant(c.Context(), id)
}

func (a *API) correctPlant(c *call) (any, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	const plantMax = 1 << 20 // as in an import
	body, err := decode[admin.Correction](c, plantMax)
	if err != nil {
		return nil, err
	}
	return a.service.Correct(c.Context(), id, body, c.Origin())
}

func (a *API) listPlants(c *call) error {
	limit, err := c.query.limit(admin.PageMax)
	if err != nil {
		return err
	}
	q := admin.PageQuery{
		Cursor: c.query.Get("cursor"), Name: c.query.Get("name"), Tag: c.query.tag(), Limit: limit,
	}
	if c.query.Has("after") {
		after, err := strconv.ParseInt(c.query.Get("after"), 10, 64)
		if err != nil {
			return mustBe("after", "a 64-bit integer", c.query.Get("after"))
		}
		q.After = &after
	}
	page, err := a.service.Plants(c.Context(), q)
	if err != nil {
		return err
	}
	sendPage(c, page)
	return nil
}

// sendPage responds with a page, in parts: its JSON can be several times as large as its texts.
func sendPage(w http.ResponseWriter, page admin.Page) {
	const partBytes = 64 << 10
	w.Header().Set("Content-Type", "application/json")
	part := []byte(`{"plants":[`)
	for i, r := range page.Plants {
		if i > 0 {
			part = append(part, ',')
		}
		if part = r.AppendJSON(part); len(part) >= partBytes {
			if _, err := w.Write(part); err != nil {
				return // the client has disconnected
			}
			part = part[:0]
		}
	}
	part = append(part, ']')
	if page.Next != "" {
		part = append(append(part, `,"next":`...), strconv.Quote(page.Next)...)
	}
	_, _ = w.Write(append(part, '}', '\n')) // fails if the client has disconnected
}

// countPlants responds with the counts in memory, and starts a count if they are too old.
func (a *API) countPlants(c *call) (any, error) {
	const fallback, most = 60 * 60, 365 * 24 * 60 * 60 // seconds
	seconds, err := c.query.integer("max_age", fallback, 0, most)
	if err != nil {
		return nil, err
	}
	last, running, err := a.service.Counts(time.Duration(seconds) * time.Second)
	return struct {
		Counts  *admin.Counts        `json:"counts,omitempty"`
		Running *admin.CountProgress `json:"running,omitempty"`
	}{last, running}, err
}
