package admin

import (
	"net/http"
	"time"

	"plantstore/internal/auth"
)

const (
	maxAgeDefault = 60 * 60            // seconds
	maxAgeMax     = 365 * 24 * 60 * 60 // seconds
)

// countPlants responds with the counts in memory, and starts a count if they are too old.
func (a api) countPlants(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	values, err := parameters(r, "max_age")
	if err != nil {
		return err
	}
	seconds, err := intParameter(values, "max_age", maxAgeDefault, 0, maxAgeMax)
	if err != nil {
		return err
	}
	last, running, err := a.service.Counts(time.Duration(seconds) * time.Second)
	if err != nil {
		return err
	}
	return respond(w, struct {
		Counts  *Counts        `json:"counts,omitempty"`
		Running *CountProgress `json:"running,omitempty"`
	}{last, running})
}

// known returns nil for an unknown number of plants.
func known(plants int64) *int64 {
	if plants < 0 {
		return nil
	}
	return &plants
}
