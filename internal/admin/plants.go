package admin

import (
	"context"
	"errors"
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

// PageQuery selects a page of plants.
type PageQuery struct {
	Cursor string    // Page.Next of the page before; empty: the first page
	After  *int64    // only plants with a greater id, without a cursor; nil: all
	Tag    plant.Tag // only plants with exactly this tag; the zero value: every plant
	Limit  int       // from 1 to PageMax
}

// Page is a page of plants by ascending id.
type Page struct {
	Plants []plant.Record // any page may have fewer than PageQuery.Limit, even none
	Next   string         // cursor of the next page; empty: this is the last page
}

// pageTimeMax is the time after which a page ends early, because a rare tag or actor requires a read of the whole
// table.
const pageTimeMax = 2 * time.Second

// Plants returns a page of plants.
func (s *Service) Plants(ctx context.Context, q PageQuery) (Page, error) {
	from, err := parseIDCursor(q.Cursor)
	if err != nil {
		return Page{}, err
	}
	if q.After != nil {
		if q.Cursor != "" {
			return Page{}, plant.InvalidQuery("send after or cursor, not both")
		}
		if q.Cursor = cursorAfter(*q.After); q.Cursor == "" { // no id is greater
			return Page{}, nil
		}
		from = *q.After + 1
	}
	if _, tagged := q.Tag.Get(); tagged {
		return s.taggedPage(ctx, q)
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

// errEnough ends the search for a page.
var errEnough = errors.New("the page has taken long enough")

// taggedPage returns a page of the plants with a tag. It reads all plants, because the table has no index of tags.
func (s *Service) taggedPage(ctx context.Context, q PageQuery) (page Page, err error) {
	started := time.Now()
	query := SearchQuery{Tag: q.Tag, Cursor: q.Cursor, Limit: q.Limit}
	end, err := s.Search(ctx, query, func(p SearchProgress) error {
		page.Plants = append(page.Plants, p.Hits...)
		if time.Since(started) >= pageTimeMax {
			return errEnough
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return Page{}, err
	case end.Reason == Failed:
		return Page{}, end.fault
	case end.Reason == Shutdown:
		return Page{}, errShutdown
	}
	page.Next = end.Next
	return page, nil
}
