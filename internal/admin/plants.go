package admin

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Plant returns the plant with an id.
func (s *Service) Plant(ctx context.Context, id int64) (plant.Record, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return plant.Record{}, err
	}
	defer end()
	r, err := s.engine.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, &plant.Error{
			Code: plant.CodePlantNotFound, Message: fmt.Sprintf("the store has no plant with the id %d", id),
		}
	case err != nil:
		return r, s.unreadable(err)
	}
	return r, nil
}

// PageMax is the largest number of plants on a page.
const PageMax = 1000

// PageQuery selects a page of plants.
type PageQuery struct {
	Cursor string    // Page.Next of the page before; empty: the first page
	After  *int64    // only plants with a greater id, without a cursor; nil: all
	Tag    plant.Tag // only plants with exactly this tag; the zero value selects every plant
	Limit  int       // plants on the page, from 1 to PageMax
}

// Page is a page of plants in the order of their ids.
type Page struct {
	Plants []plant.Record // may be fewer than PageQuery.Limit, even none, also before the last page
	Next   string         // cursor of the next page; empty: this is the last page
}

// pageTimeMax is the time after which a page of a tag ends, because a rare tag requires a
// read of the whole table.
const pageTimeMax = 2 * time.Second

// Plants returns a page of plants.
func (s *Service) Plants(ctx context.Context, q PageQuery) (Page, error) {
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return Page{}, err
	}
	if q.Limit < 1 || q.Limit > PageMax {
		return Page{}, invalid(fmt.Sprintf("limit must be from 1 to %d; got %d", PageMax, q.Limit))
	}
	if q.After != nil {
		if q.Cursor != "" {
			return Page{}, invalid("send after or cursor, not both")
		}
		if q.Cursor = cursorAfter(*q.After); q.Cursor == "" { // no id is greater
			return Page{}, nil
		}
		from = *q.After + 1
	}
	if _, tagged := q.Tag.Get(); tagged {
		return s.taggedPage(ctx, q)
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return Page{}, err
	}
	defer end()
	records, err := s.engine.List(ctx, store.Query{From: from, Limit: q.Limit})
	if err != nil {
		return Page{}, s.unreadable(err)
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

// errEnough ends the search of a page.
var errEnough = errors.New("the page has taken long enough")

// taggedPage returns a page of the plants with a tag. It reads all plants, because the
// table has no index of tags.
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
		return Page{}, errShutdown()
	}
	page.Next = end.Next
	return page, nil
}

// firstID is the smallest id.
const firstID = math.MinInt64

// A cursor is cursorVersion and the smallest id of the page in 8 bytes, in base64url.
const (
	cursorVersion = 1
	cursorBytes   = 9
)

// cursorAfter returns the cursor of the page that begins after an id; empty if no id
// is greater.
func cursorAfter(id int64) string {
	if id == math.MaxInt64 {
		return ""
	}
	return cursorFrom(id + 1)
}

// cursorFrom returns the cursor of the page that begins with an id.
func cursorFrom(id int64) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(id)))
}

// parseCursor returns the smallest id of the page of a cursor; the smallest id of all for
// an empty one.
func parseCursor(text string) (from int64, err error) {
	if text == "" {
		return firstID, nil
	}
	b, err := decodeCursor(text)
	if err != nil || len(b) != cursorBytes {
		return 0, errCursor()
	}
	return int64(binary.BigEndian.Uint64(b[1:])), nil
}

// decodeCursor returns the bytes of a cursor, at least cursorBytes.
func decodeCursor(text string) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") || len(b) < cursorBytes || b[0] != cursorVersion {
		return nil, errCursor() // the decoder ignores ends of lines
	}
	return b, nil
}

func errCursor() error {
	return invalid("cursor must be the next of an earlier page; send the request without it for the first page")
}

func invalid(message string) error {
	return &plant.Error{Code: plant.CodeQueryInvalid, Message: message}
}
