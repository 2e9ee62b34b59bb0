package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// countsJSON is the response of countPlants.
type countsJSON struct {
	Counts  *countedJSON  `json:"counts,omitempty"`
	Running *countingJSON `json:"running,omitempty"`
}

type countedJSON struct {
	CountedAt time.Time `json:"counted_at"`
	TookMS    int64     `json:"took_ms"`
	Plants    int64     `json:"plants"`
	Untagged  int64     `json:"untagged"`
	Tags      []tagJSON `json:"tags"`
	OtherTags int64     `json:"other_tags"`
	Exact     bool      `json:"exact"`
	Days      []dayJSON `json:"days"`
	OtherDays int64     `json:"other_days"`
}

type tagJSON struct {
	Tag    string `json:"tag"`
	Plants int64  `json:"plants"`
}

type dayJSON struct {
	Day    string `json:"day"`
	Plants int64  `json:"plants"`
}

type countingJSON struct {
	StartedAt time.Time `json:"started_at"`
	Rows      int64     `json:"rows"`
	Of        *int64    `json:"of,omitempty"`
}

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
	var body countsJSON
	if last != nil {
		body.Counts = last.toJSON()
	}
	if running != nil {
		body.Running = &countingJSON{StartedAt: running.Since.UTC(), Rows: running.Rows, Of: known(running.Of)}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	server.WriteJSON(w, http.StatusOK, append(text, '\n'))
	return nil
}

func (c *Counts) toJSON() *countedJSON {
	out := &countedJSON{
		CountedAt: c.At, TookMS: c.Took.Milliseconds(), Plants: c.Plants, Untagged: c.Untagged, OtherTags: c.OtherTags,
		Exact: c.Exact, OtherDays: c.OtherDays, Tags: make([]tagJSON, len(c.Tags)), Days: make([]dayJSON, len(c.Days)),
	}
	for i, tag := range c.Tags {
		out.Tags[i] = tagJSON(tag)
	}
	for i, day := range c.Days {
		out.Days[i] = dayJSON{day.Day.Format(time.DateOnly), day.Plants}
	}
	return out
}

// known returns nil for an unknown number of plants.
func known(plants int64) *int64 {
	if plants < 0 {
		return nil
	}
	return &plants
}
