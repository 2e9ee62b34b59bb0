package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// SearchMax is the largest number of hits of a search.
const SearchMax = 10_000

// SearchQuery selects the plants of a search.
type SearchQuery struct {
	Name   string    // a part of the name, in any case; empty: every name
	Tag    plant.Tag // only plants with exactly this tag; the zero value: every plant
	Cursor string    // SearchEnd.Next of an earlier search, to continue it; empty: the first plant
	Limit  int       // hits after which the search ends, from 1 to SearchMax

	// Ranked searches for RankedMax hits, of which Limit are reported: first those whose names begin with Name, then the
	// others. The cursor is then the number of hits before them.
	Ranked bool

	timeMax time.Duration // after which the search ends as at its limit; 0: no limit
}

// RankedMax is the number of hits after which a ranked search ends.
const RankedMax = 1000

// SearchProgress is a part of the result of a search.
type SearchProgress struct {
	Again bool           // the search has found better hits than those of the parts before, which don't count
	Hits  []plant.Record // found since the last part, by ascending id
	Rows  int64          // plants read since the start
	Total *int64         // plants in the store when the search started, an estimate on PostgreSQL; nil: unknown
}

// SearchEnd is the end of a search.
type SearchEnd struct {
	Reason EndReason
	Hits   int64 // of a ranked search, also those that are not reported
	Rows   int64 // plants read
	Took   time.Duration
	Next   string // cursor with which another search continues; empty if the search is complete

	fault error // why the end is Shutdown or Failed
}

// EndReason is the reason why a search ended.
type EndReason string

// The reasons. A later version may add others.
const (
	Complete EndReason = "complete"      // the search has read every plant
	Limited  EndReason = "limit"         // it has SearchQuery.Limit hits
	Shutdown EndReason = "shutting-down" // Service.Close was called
	Failed   EndReason = "failed"        // a read of the store failed; the log has the cause
)

// ProgressEvery is the longest time between two reports of a search.
const ProgressEvery = 250 * time.Millisecond

// Search finds plants by ascending id. It calls report at its start, as soon as it has found plants, and every 250 ms.
// It reads the whole table, and pauses between two reads while clients create plants. A *plant.Error means that the
// search did not start: the query is invalid, or too many searches run. Any other error comes from ctx or report, and
// ends the search.
func (s *Service) Search(
	ctx context.Context, q SearchQuery, report func(SearchProgress) error,
) (end SearchEnd, err error) {
	from, before := int64(firstID), 0
	if !q.Ranked {
		from, err = parseIDCursor(q.Cursor)
	} else if before, err = strconv.Atoi(cmp.Or(q.Cursor, "0")); err != nil || before < 0 {
		err = errCursor
	}
	if err != nil {
		return end, err
	}
	scanContext, leave, err := s.beginScan(ctx)
	if err != nil {
		return end, err
	}
	defer leave()
	r := search{service: s, query: q, matcher: newMatcher(q.Name), report: report, started: time.Now()}
	r.progress.Total = s.plantCount(scanContext)
	r.continueAt(from)
	if err = r.send(); err == nil {
		err = r.scan(scanContext, from)
	}
	if err == nil && q.Ranked {
		err = r.reportRanked(scanContext, before)
	}
	r.end.Rows, r.end.Took = r.progress.Rows, time.Since(r.started)
	switch {
	case err == nil || ctx.Err() != nil:
		return r.end, errors.Join(err, ctx.Err())
	case s.ctx.Err() != nil:
		r.end.Reason, r.end.fault = Shutdown, errShutdown
	case errors.Is(err, errReport):
		return r.end, err
	default:
		r.end.Reason, r.end.fault = Failed, s.unreadable(err)
	}
	return r.end, nil
}

var errReport = errors.New("report the progress of a search")

// plantCount returns the number of stored plants; nil: unknown.
func (s *Service) plantCount(ctx context.Context) *int64 {
	state, err := s.engine.State(ctx)
	if err != nil || state.Plants < 0 {
		return nil // the scan returns an error that persists
	}
	return &state.Plants
}

type search struct {
	service  *Service
	query    SearchQuery
	matcher  *matcher
	report   func(SearchProgress) error
	started  time.Time
	sentAt   time.Time
	found    []int64 // ids that match in the current chunk
	damaged  bool    // one of them is damaged
	begin    []int64 // ids of a ranked search whose names begin with the part
	others   []int64
	shown    []int64 // of them, in the order of the report
	progress SearchProgress
	end      SearchEnd
}

func (r *search) scan(ctx context.Context, from int64) error {
	tag, tagged := r.query.Tag.Get()
	tagBytes := []byte(tag)
	visit := func(p *store.Scanned) {
		at := -1
		if !tagged || p.Tag != nil && bytes.Equal(p.Tag, tagBytes) {
			at = r.matcher.find(p.Name)
		}
		if at < 0 && !p.Damaged || r.query.Ranked && !r.rank(p.ID, at) {
			return
		}
		r.found = append(r.found, p.ID)
		r.damaged = r.damaged || p.Damaged // nobody knows the name and the tag of a damaged plant
	}
	for c, err := range r.service.scan(ctx, from, visit) {
		if err != nil {
			return err
		}
		r.progress.Rows += int64(c.rows)
		if r.end.Next = ""; c.more {
			r.continueAt(c.next)
		}
		if err := r.load(ctx); err != nil {
			return err
		}
		if len(r.progress.Hits) > 0 || time.Since(r.sentAt) >= ProgressEvery {
			if err := r.send(); err != nil {
				return err
			}
		}
		if r.query.timeMax > 0 && time.Since(r.started) >= r.query.timeMax || r.rankedFull() {
			r.end.Reason = Limited
		}
		if r.end.Reason == Limited {
			return nil
		}
	}
	r.end.Reason = Complete
	return r.send()
}

// continueAt sets the cursor of a search that goes on at an id. A ranked one starts again.
func (r *search) continueAt(id int64) {
	if !r.query.Ranked {
		r.end.Next = newCursor(id, "")
	}
}

// rank keeps the id of a hit whose name has the part at an index, and reports whether the hit is among the first Limit
// ones that are found, which are reported at once.
func (r *search) rank(id int64, at int) bool {
	if r.rankedFull() {
		return false
	}
	if at == 0 {
		r.begin = append(r.begin, id)
	} else {
		r.others = append(r.others, id)
	}
	early := len(r.shown) < r.query.Limit
	if early {
		r.shown = append(r.shown, id)
	}
	return early
}

func (r *search) rankedFull() bool { return len(r.begin)+len(r.others) == RankedMax }

// reportRanked reports the hits after a number of better ones, unless these are the reported ones.
func (r *search) reportRanked(ctx context.Context, before int) error {
	reason, all := r.end.Reason, slices.Concat(r.begin, r.others)
	first := min(before, len(all))
	last := min(first+r.query.Limit, len(all))
	if !slices.Equal(all[first:last], r.shown) {
		r.progress.Again, r.found, r.damaged, r.end.Reason, r.end.Hits = true, all[first:last], true, "", 0
		if err := r.load(ctx); err != nil {
			return err
		}
		if err := r.send(); err != nil {
			return err
		}
	}
	if r.end.Reason, r.end.Hits, r.end.Next = reason, int64(len(all)), ""; last < len(all) {
		r.end.Next = strconv.Itoa(last)
	}
	return nil
}

// load reads the found plants up to the limit, and reports them in parts, because they can be large.
func (r *search) load(ctx context.Context) error {
	const partBytes = 256 << 10
	bytes := 0
	for i := 0; i < len(r.found) && r.end.Reason != Limited; {
		q := store.Query{From: r.found[i], Limit: 1}
		if r.query.Name == "" && !r.damaged { // the next plants with the tag are those found, and new ones between them
			q.Tag, q.Limit = r.query.Tag, min(len(r.found)-i, int(int64(r.query.Limit)-r.end.Hits))
		}
		records, err := r.service.engine.List(ctx, q)
		if err != nil {
			return err
		}
		if len(records) == 0 || q.Limit == 1 && records[0].ID != r.found[i] { // it was erased
			i++
			continue
		}
		for _, record := range records {
			r.progress.Hits = append(r.progress.Hits, record)
			if r.end.Hits++; r.end.Hits == int64(r.query.Limit) && !r.query.Ranked {
				r.end.Reason, r.end.Next = Limited, cursorAfter(record.ID)
			}
			if bytes += record.Bytes(); bytes >= partBytes {
				if err := r.send(); err != nil {
					return err
				}
				bytes = 0
			}
		}
		if q.Limit == 1 { // a ranked search doesn't find by ascending id
			i++
			continue
		}
		for last := records[len(records)-1].ID; i < len(r.found) && r.found[i] <= last; {
			i++
		}
	}
	r.found, r.damaged = r.found[:0], false
	return nil
}

func (r *search) send() error {
	if err := r.report(r.progress); err != nil {
		return fmt.Errorf("%w: %w", errReport, err)
	}
	r.progress.Again, r.progress.Hits, r.sentAt = false, nil, time.Now()
	return nil
}
