package adminapi

import (
	"context"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// changeDead returns the function of a route that changes the dead letters that the body of a request selects.
func changeDead(
	change func(context.Context, store.DeadSelector, audit.Origin) (admin.DeadLettersChanged, error),
) func(*call) (any, error) {
	return func(c *call) (any, error) {
		var selector store.DeadSelector
		var plantID int64
		var all bool
		given, err := c.read(map[string]any{"webhook_id": &selector.Webhook, "plant_id": &plantID, "all": &all})
		switch {
		case err != nil:
			return nil, err
		case all == (given["webhook_id"] || given["plant_id"]):
			return nil, plant.InvalidInput("send webhook_id, plant_id or both, or all with the value true alone")
		case given["webhook_id"] && selector.Webhook < 1:
			return nil, plant.InvalidInput("webhook_id must be at least 1; got %d", selector.Webhook)
		}
		if given["plant_id"] {
			selector.Plant = &plantID
		}
		return change(c.Context(), selector, c.Origin())
	}
}
