package admin

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Erasure selects the plants to erase, in the form of the API: those with the ids, or all that match each of the other
// members. A plant that is created again after it was selected stays.
type Erasure struct {
	IDs     []int64    `json:"ids,omitempty"`     // at most EraseMax
	Creator *string    `json:"creator,omitempty"` // name of a credential, or id, or "id 7"; 0: the operator's own commands
	Since   *time.Time `json:"since,omitempty"`   // created at this time or later
	Until   *time.Time `json:"until,omitempty"`   // created before this time
	Tag     *string    `json:"tag,omitempty"`     // exactly this tag

	Reason string `json:"reason,omitempty"` // for the audit log
	DryRun bool   `json:"dry_run,omitempty"`
	Cursor string `json:"cursor,omitempty"` // Erased.Next of the call before; empty: the first call
}

// Erased is the result of a part of an erasure.
type Erased struct {
	Plants int64          `json:"plants"`          // erased; of a dry run, that would be
	First  []plant.Record `json:"first,omitempty"` // of a dry run, the first of them
	Next   string         `json:"next,omitempty"`  // cursor of the next part; empty: this is the last part
}

const (
	// EraseMax is the most plants of a part. Clients wait for its transaction on SQLite.
	EraseMax = 100

	erasedFirst = 10 // Erased.First
)

// Erase erases a part of the selected plants, so the caller repeats it with the cursor until that is empty. A call
// after one that failed may start again: it finds only what is left.
func (s *Service) Erase(ctx context.Context, e Erasure, by audit.Origin) (Erased, error) {
	byID := len(e.IDs) > 0
	switch some := e.Creator != nil || e.Since != nil || e.Until != nil || e.Tag != nil; {
	case byID && some:
		return Erased{}, plant.InvalidInput("send ids or a selection by creator, since, until and tag, not both")
	case !byID && !some:
		return Erased{}, plant.InvalidInput("say which plants: send ids, or creator, since, until or tag")
	case len(e.IDs) > EraseMax:
		return Erased{}, plant.InvalidInput("ids has %d ids; send at most %d at a time", len(e.IDs), EraseMax)
	case byID && e.Cursor != "":
		return Erased{}, plant.InvalidInput("ids have no cursor; send the next ids instead")
	case e.Since != nil && e.Until != nil && !e.Since.Before(*e.Until):
		return Erased{}, plant.InvalidInput("since must be before until")
	}
	plants, next, err := s.selected(ctx, e)
	if ended, ok := errors.AsType[*plant.Error](context.Cause(ctx)); ok { // the credential has, between two parts
		err = ended
	}
	if err != nil {
		return Erased{}, err
	}
	result := Erased{Plants: int64(len(plants)), Next: next}
	if e.DryRun {
		for _, p := range plants[:min(len(plants), erasedFirst)] {
			r, err := s.Plant(ctx, p.ID)
			if known, ok := errors.AsType[*plant.Error](err); ok && known.Code == plant.CodePlantNotFound {
				continue // it was erased meanwhile
			} else if ok && known.Code == plant.CodePlantDamaged {
				r, err = plant.Record{NewPlant: plant.NewPlant{ID: p.ID}, Damaged: true}, nil
			}
			if err != nil {
				return Erased{}, err
			}
			result.First = append(result.First, r)
		}
		return result, nil
	}
	start := time.Now()
	result.Plants, err = change(ctx, s, func(ctx context.Context) (int64, error) {
		return s.engine.Erase(ctx, plants, e.Reason, by)
	})
	if err == nil && s.clientsWrite() {
		pause(ctx, time.Since(start)) // creates go first
	}
	return result, err
}

// selected returns the versions of a part of the selected plants, by ascending id, and the cursor of the next part.
func (s *Service) selected(ctx context.Context, e Erasure) (plants []store.Version, next string, err error) {
	if len(e.IDs) > 0 {
		ids := slices.Compact(slices.Sorted(slices.Values(e.IDs)))
		plants, err = run(ctx, s, s.unreadable, func(ctx context.Context) (found []store.Version, err error) {
			for _, id := range ids {
				if _, _, err := s.engine.Scan(ctx, id, 1, func(p *store.Scanned) {
					if p.ID == id {
						found = append(found, p.Version())
					}
				}); err != nil {
					return nil, err
				}
			}
			return found, nil
		})
		return plants, "", err
	}
	creators, err := s.creators(ctx, e.Creator)
	if err != nil {
		return nil, "", err
	}
	from, err := parseIDCursor(e.Cursor)
	if err != nil {
		return nil, "", err
	}
	ctx, leave, err := s.beginScan(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	since, until := microseconds(e.Since, math.MinInt64), microseconds(e.Until, math.MaxInt64)
	full := false
	visit := func(p *store.Scanned) {
		switch {
		case p.CreatedAt < since, p.CreatedAt >= until,
			e.Creator != nil && !slices.Contains(creators, p.CreatedBy),
			e.Tag != nil && (p.Tag == nil || string(p.Tag) != *e.Tag),
			p.Damaged: // its tag and its time may be wrong
		case len(plants) == EraseMax:
			full = true
		default:
			plants = append(plants, p.Version())
		}
	}
	start := time.Now()
	for c, err := range s.scan(ctx, from, visit) {
		switch {
		case err != nil:
			return nil, "", s.unreadable(err)
		case full:
			return plants, cursorAfter(plants[EraseMax-1].ID), nil
		case !c.more:
			return plants, "", nil
		case time.Since(start) > pageTimeMax:
			return plants, newCursor(c.next, ""), nil
		}
	}
	return plants, "", nil
}

// microseconds returns a time as Scanned.CreatedAt; without is for nil.
func microseconds(t *time.Time, without int64) int64 {
	if t == nil {
		return without
	}
	return t.UnixMicro()
}

// creators returns the ids of the credentials with a name or else with an id; none for nil. A credential that was
// removed has only an id. A name may be a number, but has no space, so "id 7" is the credential 7.
func (s *Service) creators(ctx context.Context, name *string) (ids []int64, err error) {
	if name == nil {
		return nil, nil
	}
	tokens, err := run(ctx, s, s.unreadable, s.engine.Tokens)
	if err != nil {
		return nil, err
	}
	text, byID := strings.CutPrefix(*name, "id ")
	for _, t := range tokens {
		if t.Name == *name && !byID {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) > 0 {
		return ids, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, plant.InvalidInput("no credential has the name or the id %.100q; 0 stands for the operator", *name)
	}
	return []int64{id}, nil
}

// Correction is the new content of a plant, in the form of the API. What is absent stays as it is.
type Correction struct {
	Name   *string `json:"name,omitempty"`
	Tag    *string `json:"tag,omitempty"`
	NoTag  bool    `json:"no_tag,omitempty"` // removes the tag
	Reason string  `json:"reason,omitempty"` // for the audit log
}

// Correct erases a plant and creates it with other content in one transaction. The plant keeps its id; it was created
// now, by the credential that corrects it.
func (s *Service) Correct(ctx context.Context, id int64, c Correction, by audit.Origin) (plant.Record, error) {
	none := plant.Record{}
	switch {
	case c.Name == nil && c.Tag == nil && !c.NoTag:
		return none, plant.InvalidInput("say what is right: send name, tag or no_tag")
	case c.Tag != nil && c.NoTag:
		return none, plant.InvalidInput("send tag or no_tag, not both")
	case !utf8.ValidString(deref(c.Name)) || !utf8.ValidString(deref(c.Tag)):
		return none, plant.InvalidInput("the name and the tag must be UTF-8")
	}
	old, err := s.Plant(ctx, id)
	if err != nil {
		return none, err
	}
	right := old.NewPlant
	right.Name = deref(cmp.Or(c.Name, &right.Name))
	if c.Tag != nil {
		right.Tag = plant.Tagged(*c.Tag)
	}
	if c.NoTag {
		right.Tag = plant.Tag{}
	}
	text := right.AppendJSON(nil)
	if len(text) > plant.BodyBytesMax {
		return none, plant.InvalidInput("the plant has %d bytes as JSON; at most %d are allowed", len(text),
			plant.BodyBytesMax)
	}
	if _, err := plant.Decode(text); err != nil { // U+0000
		return none, err
	}
	if right == old.NewPlant {
		return old, nil
	}
	creator, name := creatorOf(by)
	corrected := plant.Record{NewPlant: right, CreatedAt: time.Now().UTC().Truncate(time.Microsecond), CreatedBy: name}
	return change(ctx, s, func(ctx context.Context) (plant.Record, error) {
		rows, err := s.engine.PlantsByID(ctx, []int64{id}, store.PlantsBytes)
		if err == nil && (len(rows) == 0 || rows[0].NewPlant != old.NewPlant) {
			err = store.ErrNotFound
		}
		if err == nil {
			create := store.Create{Plant: right, By: creator, At: corrected.CreatedAt}
			err = s.engine.Correct(ctx, store.VersionOf(rows[0]), create, c.Reason, by)
		}
		if errors.Is(err, store.ErrNotFound) {
			err = plant.Errorf(plant.CodePlantNotFound, "plant %d has changed; read it, and correct it again", id)
		}
		return corrected, err
	})
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// creatorOf returns the id of the credential of a request, and its name as in plant.Record; 0 for a command of the
// operator.
func creatorOf(by audit.Origin) (id int64, name string) {
	if by.Actor.Kind != audit.Token {
		return 0, ""
	}
	id, _ = strconv.ParseInt(by.Actor.ID, 10, 64) // the server sets it
	return id, store.CreatorName(by.Actor.Name, id)
}
