package adminapi

import (
	"plantstore/internal/store"
)

func (a *API) listWebhooks(c *call) (any, error) {
	q, err := c.query.list()
	if err != nil {
		return nil, err
	}
	return a.service.Webhooks(c.Context(), q)
}

func (a *API) listDeadLetters(c *call) (any, error) {
	q, err := c.query.list()
	if err != nil {
		return nil, err
	}
	return a.service.DeadLetters(c.Context(), q)
}

func (a *API) retryDead(c *call) (any, error) {
	selector, err := c.deadSelector()
	if err != nil {
		return nil, err
	}
	return a.service.RetryDead(c.Context(), selector, c.by())
}

func (a *API) dropDead(c *call) (any, error) {
	selector, err := c.deadSelector()
	if err != nil {
		return nil, err
	}
	return a.service.DropDead(c.Context(), selector, c.by())
}

// deadSelector returns the dead letters that the body of a request selects.
func (c *call) deadSelector() (s store.DeadSelector, err error) {
	var plantID int64
	var all bool
	given, err := c.read(map[string]any{"webhook_id": &s.Webhook, "plant_id": &plantID, "all": &all})
	switch {
	case err != nil:
		return s, err
	case all == (given["webhook_id"] || given["plant_id"]):
		return s, invalidBody("send webhook_id, plant_id or both, or all with the value true alone")
	case given["webhook_id"] && s.Webhook < 1:
		return s, invalidBody("webhook_id must be at least 1; got %d", s.Webhook)
	}
	if given["plant_id"] {
		s.Plant = &plantID
	}
	return s, nil
}
