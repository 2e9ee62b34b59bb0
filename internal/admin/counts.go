package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/store"
)

// Counts are the numbers of plants by tag and by day, in the form of the API. They may include plants that were created
// during the count.
type Counts struct {
	At        time.Time  `json:"counted_at"` // start of the count
	TookMS    int64      `json:"took_ms"`
	Plants    int64      `json:"plants"`
	Untagged  int64      `json:"untagged"`   // plants without a tag
	Tags      []TagCount `json:"tags"`       // the most frequent, by descending number, then by tag; at most TagsMax
	OtherTags int64      `json:"other_tags"` // plants with other tags
	Exact     bool       `json:"exact"`      // false: there are so many tags that numbers of Tags may be too small
	Days      []DayCount `json:"days"`       // by ascending day; at most daysMax
	OtherDays int64      `json:"other_days"` // plants of other days
}

// TagCount is the number of plants with a tag.
type TagCount struct {
	Tag    string `json:"tag"`
	Plants int64  `json:"plants"`
}

// DayCount is the number of plants that were created on a day in UTC.
type DayCount struct {
	Day    string `json:"day"` // such as 2026-11-21
	Plants int64  `json:"plants"`
}

// CountProgress is the progress of a running count, in the form of the API.
type CountProgress struct {
	Since time.Time `json:"started_at"`
	Rows  int64     `json:"rows"`            // plants read
	Total *int64    `json:"total,omitempty"` // plants at the start, an estimate on PostgreSQL; nil: unknown
}

const (
	// TagsMax is the largest number of tags in Counts.
	TagsMax = 1000
	// TagBytesMax is the length of the longest tag in Counts.Tags.
	TagBytesMax = 256
	// tagsKept is the number of tags in memory during a count, which removes the rarest half when there are more.
	tagsKept = 1 << 16
	// daysMax is the largest number of days in Counts, over a century. Only a wrong clock causes more.
	daysMax = 40_000
)

// counting is the state of the counts of a service.
type counting struct {
	running atomic.Pointer[CountProgress] // nil: none; the value does not change

	mu   sync.Mutex // held by the start and the end of a count
	last *Counts    // nil: none yet; the value does not change; guarded by mu
}

// Counts returns the counts in memory; nil before the first. If they are older than maxAge and no count runs, it starts
// one in the background. It returns the progress of a running count. Close ends a running count.
func (s *Service) Counts(maxAge time.Duration) (last *Counts, running *CountProgress, err error) {
	c := &s.counting
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.Load() == nil && (c.last == nil || time.Since(c.last.At) > maxAge) {
		if err := s.startCount(); err != nil {
			return nil, nil, err
		}
	}
	return c.last, c.running.Load(), nil
}

// LastCounts returns the counts in memory; nil before the first.
func (s *Service) LastCounts() *Counts {
	s.counting.mu.Lock()
	defer s.counting.mu.Unlock()
	return s.counting.last
}

// startCount starts a count. The caller has locked counting.mu.
func (s *Service) startCount() error {
	ctx, end, err := s.begin(s.ctx)
	if err != nil {
		return err
	}
	c, progress := &s.counting, CountProgress{Since: time.Now().UTC()}
	c.running.Store(&progress)
	go func() { // ends with the table, or with Close, which waits for it
		defer end()
		counts, err := s.count(ctx, progress)
		if err != nil {
			_ = s.unreadable(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running.Store(nil)
		if err == nil {
			c.last = counts
		}
	}()
	return nil
}

func (s *Service) count(ctx context.Context, progress CountProgress) (*Counts, error) {
	progress.Total = s.plantCount(ctx)
	t := tally{Counts: Counts{At: progress.Since, Exact: true}, tags: map[string]*int64{}, days: map[int64]int64{}}
	for c, err := range s.scan(ctx, firstID, t.add) {
		if err != nil {
			return nil, err
		}
		progress.Rows += int64(c.rows)
		now := progress
		s.counting.running.Store(&now)
	}
	counts := t.end()
	return &counts, nil
}

// tally counts plants.
type tally struct {
	Counts

	tags map[string]*int64
	days map[int64]int64 // by the start of the day in Unix time
}

func (t *tally) add(p *store.Scanned) {
	t.Plants++
	if p.Damaged {
		t.OtherTags++
		t.OtherDays++
		return
	}
	t.addDay(p.CreatedAt)
	switch {
	case p.Tag == nil:
		t.Untagged++
	case len(p.Tag) > TagBytesMax:
		t.OtherTags++
	default:
		t.addTag(p.Tag)
	}
}

func (t *tally) addTag(tag []byte) {
	counter, ok := t.tags[string(tag)]
	if !ok {
		if len(t.tags) == tagsKept {
			t.prune()
		}
		counter = new(int64)
		t.tags[string(tag)] = counter
	}
	*counter++
}

// prune removes the rarest half of the tags.
func (t *tally) prune() {
	t.Exact = false
	sorted := t.sortedTags()
	for _, tag := range sorted[len(sorted)/2:] {
		delete(t.tags, tag.Tag)
		t.OtherTags += tag.Plants
	}
}

func (t *tally) addDay(microseconds int64) {
	day := time.UnixMicro(microseconds).Truncate(24 * time.Hour).Unix()
	if _, ok := t.days[day]; !ok && len(t.days) == daysMax {
		t.OtherDays++
		return
	}
	t.days[day]++
}

// sortedTags returns the tags by descending number, and then by tag.
func (t *tally) sortedTags() []TagCount {
	list := make([]TagCount, 0, len(t.tags))
	for tag, n := range t.tags {
		list = append(list, TagCount{tag, *n})
	}
	slices.SortFunc(list, func(a, b TagCount) int {
		return cmp.Or(cmp.Compare(b.Plants, a.Plants), cmp.Compare(a.Tag, b.Tag))
	})
	return list
}

// end returns the counts after the last plant.
func (t *tally) end() Counts {
	sorted := t.sortedTags()
	kept := min(len(sorted), TagsMax)
	t.Tags, t.Days = slices.Clone(sorted[:kept]), []DayCount{}
	for _, tag := range sorted[kept:] {
		t.OtherTags += tag.Plants
	}
	for _, day := range slices.Sorted(maps.Keys(t.days)) {
		t.Days = append(t.Days, DayCount{time.Unix(day, 0).UTC().Format(time.DateOnly), t.days[day]})
	}
	t.TookMS = time.Since(t.At).Milliseconds()
	return t.Counts
}
