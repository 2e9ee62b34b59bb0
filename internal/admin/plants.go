package admin

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Plant returns the plant with an id.
func (s *Service) Plant(ctx context.Context, id int64) (plant.Record, error) {
	return run(ctx, s, s.unreadable, func(ctx context.Context) (plant.Record, error) {
		r, err := s.engine.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			err = plant.Errorf(plant.CodePlantNotFound, "the store has no plant with the id %d", id)
		}
		return r, err
	})
}

// FreeID returns the id after the largest one, at least 1. Another client may use it first. It returns 0 if the largest
// one is the largest possible.
func (s *Service) FreeID(ctx context.Context) (int64, error) {
	largest, err := run(ctx, s, s.unreadable, s.engine.LargestID)
	if err != nil || largest == math.MaxInt64 {
		return 0, err
	}
	return largest + 1, nil
}

// PageQuery selects a page of plants.
type PageQuery struct {
	Cursor string    // Page.Next of the page before; empty: the first page
	After  *int64    // only plants with a greater id, without a cursor; nil: all
	Name   string    // only plants with this part in their name, in any case; empty: every name
	Tag    plant.Tag // only plants with exactly this tag; the zero value: every plant
	Limit  int       // from 1 to PageMax
}

// Page is a page of plants by ascending id, in the form of the API.
type Page struct {
	Plants []plant.Record `json:"plants"`         // any page may have fewer than PageQuery.Limit, even none
	Next   string         `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// pageTimeMax is the time after which a page ends early, because a rare tag, name or actor requires a read of the whole
// table.
const pageTimeMax = 2 * time.Second

// Plants returns a page of plants.
func (s *Service) Plants(ctx context.Context, q PageQuery) (Page, error) {
	if q.After != nil {
		if q.Cursor != "" {
			return Page{}, plant.InvalidQuery("send after or cursor, not both")
		}
		if q.Cursor = cursorAfter(*q.After); q.Cursor == "" { // no id is greater
			return Page{}, nil
		}
	}
	from, err := parseIDCursor(q.Cursor)
	if err != nil {
		return Page{}, err
	}
	if _, tagged := q.Tag.Get(); tagged || q.Name != "" { // reads all plants, because the table has no such index
		return s.foundPage(ctx, SearchQuery{
			Name: q.Name, Tag: q.Tag, Cursor: q.Cursor, Limit: q.Limit, timeMax: pageTimeMax,
		})
	}
	records, err := run(ctx, s, s.unreadable, func(ctx context.Context) ([]plant.Record, error) {
		return s.engine.List(ctx, store.Query{From: from, Limit: q.Limit})
	})
	if err != nil {
		return Page{}, err
	}
	return pageOf(records, q.Limit), nil
}

// pageOf returns the page with the records of a read with a limit.
func pageOf(records []plant.Record, limit int) Page {
	page := Page{Plants: records}
	bytes := 0
	for _, r := range records {
		bytes += r.Bytes()
	}
	if len(records) == limit || bytes > store.PlantsBytes {
		page.Next = cursorAfter(records[len(records)-1].ID)
	}
	return page
}

// foundPage returns the hits of a search.
func (s *Service) foundPage(ctx context.Context, q SearchQuery) (Page, error) {
	var found []plant.Record
	end, err := s.Search(ctx, q, func(p SearchProgress) error {
		found = append(found, p.Hits...)
		return nil
	})
	if err := cmp.Or(err, end.fault); err != nil {
		return Page{}, err
	}
	return Page{Plants: found, Next: end.Next}, nil
}
