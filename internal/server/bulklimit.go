package server

import (
	"context"
	"errors"
	"time"

	"plantstore/internal/limit"
	"plantstore/internal/plant"
)

// The limits of the requests with Route.Bulk. Each of them can have 8 MiB of plants in memory until its client has
// received them.
const (
	bulkMax           = 8 // at the same time
	bulkPerCredential = 2
	bulkWait          = time.Second // a client that types sends its next search before the last one has ended
)

// newBulkLimit returns the places of the requests with Route.Bulk, so that slow clients of one credential do not keep
// other clients out. The key is the id of the credential.
func newBulkLimit() *limit.Places[int64] { return limit.NewPlaces[int64](bulkMax, bulkPerCredential) }

// enterBulk waits until a request with Route.Bulk may begin. The error is a *plant.Error.
func (h *handler) enterBulk(c *Call) (func(), error) {
	ctx, cancel := context.WithTimeout(c.Context(), bulkWait)
	defer cancel()
	leave, err := h.bulk.Enter(ctx, c.Principal.TokenID)
	switch {
	case errors.Is(err, limit.ErrKeyFull):
		return nil, plant.Errorf(plant.CodeTooManyAtOnce,
			"this credential runs 2 searches, exports or pages of plants already; wait for the end of one")
	case err != nil:
		return nil, plant.Errorf(plant.CodeSearchesRunning,
			"too many searches, exports and pages of plants run at the same time; send the request again")
	}
	return leave, nil
}
