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
	Day    string `json:"day"` // of the form 2026-11-21
	Plants int64  `json:"plants"`
}

// CountProgress is the progress of a running count, in the form of the API.
type CountProgress struct {
	Since time.Time `json:"started_at"`
	Rows  int64     `json:"rows"`         // plants read
	Of    *int64    `json:"of,omitempty"` // plants at the start, an estimate on PostgreSQL; nil: unknown
}

const (
	// TagsMax is the largest number of tags in Counts.
	TagsMax = 1000
	// tagBytesMax is the length of the longest tag in Counts.Tags.
	tagBytesMax = 256
	// tagsKept is the number of tags in memory during a count, which removes the rarest half when there are more.
	tagsKept = 1 << 16
	// daysMax is the largest number of days in Counts, over a century. Only a wrong clock causes more.
	daysMax = 40_000
)

// counting is the state of the counts of a service.
type counting struct {
	mu      sync.Mutex
	last    *Counts       // nil: none yet; the value does not change; guarded by mu
	running *runningCount // nil: none; guarded by mu
}

type runningCount struct {
	since time.Time
	rows  atomic.Int64
	of    atomic.Pointer[int64] // nil: unknown
}

// Counts returns the counts in memory; nil before the first. If they are older than maxAge and no count runs, it starts
// one in the background. It returns the progress of a running count. Close ends a running count.
func (s *Service) Counts(maxAge time.Duration) (last *Counts, running *CountProgress, err error) {
	c := &s.counting
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil && (c.last == nil || time.Since(c.last.At) > maxAge) {
		if err := s.startCount(); err != nil {
			return nil, nil, err
		}
	}
	if r := c.running; r != nil {
		running = &CountProgress{Since: r.since.UTC(), Rows: r.rows.Load(), Of: r.of.Load()}
	}
	return c.last, running, nil
}

// startCount starts a count. The caller has locked counting.mu.
func (s *Service) startCount() error {
	ctx, end, err := s.begin(s.ctx)
	if err != nil {
		return err
	}
	r := &runningCount{since: time.Now()}
	s.counting.running = r
	go func() { // ends with the table, or with Close, which waits for it
		defer end()
		counts, err := s.count(ctx, r)
		if err != nil {
			_ = s.unreadable(err)
		}
		s.counting.mu.Lock()
		defer s.counting.mu.Unlock()
		s.counting.running = nil
		if err == nil {
			s.counting.last = counts
		}
	}()
	return nil
}

// count counts all plants.
func (s *Service) count(ctx context.Context, r *runningCount) (*Counts, error) {
	r.of.Store(s.plants(ctx))
	t := tally{tags: map[string]*int64{}, days: map[int64]int64{}, exact: true}
	for c, err := range s.scan(ctx, firstID, t.add) {
		if err != nil {
			return nil, err
		}
		r.rows.Add(int64(c.rows))
	}
	counts := t.counts()
	counts.At, counts.TookMS = r.since.UTC(), time.Since(r.since).Milliseconds()
	return counts, nil
}

// tally counts plants.
type tally struct {
	plants, untagged, otherTags, otherDays int64

	tags  map[string]*int64
	exact bool            // no tag was removed from tags
	days  map[int64]int64 // by days since 1970
}

func (t *tally) add(p *store.Scanned) {
	t.plants++
	t.addDay(p.CreatedAt)
	switch {
	case p.Tag == nil:
		t.untagged++
	case len(p.Tag) > tagBytesMax:
		t.otherTags++
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
	t.exact = false
	sorted := t.sortedTags()
	for _, tag := range sorted[len(sorted)/2:] {
		delete(t.tags, tag.Tag)
		t.otherTags += tag.Plants
	}
}

func (t *tally) addDay(microseconds int64) {
	const day = int64(24 * time.Hour / time.Microsecond)
	n := microseconds / day
	if microseconds%day < 0 { // before 1970
		n--
	}
	if _, ok := t.days[n]; !ok && len(t.days) == daysMax {
		t.otherDays++
		return
	}
	t.days[n]++
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

func (t *tally) counts() *Counts {
	c := &Counts{
		Plants: t.plants, Untagged: t.untagged, Tags: t.sortedTags(), OtherTags: t.otherTags, Exact: t.exact,
		Days: []DayCount{}, OtherDays: t.otherDays,
	}
	if len(c.Tags) > TagsMax {
		for _, tag := range c.Tags[TagsMax:] {
			c.OtherTags += tag.Plants
		}
		c.Tags = slices.Clone(c.Tags[:TagsMax])
	}
	for _, n := range slices.Sorted(maps.Keys(t.days)) {
		day := time.Unix(n*int64(24*time.Hour/time.Second), 0).UTC()
		c.Days = append(c.Days, DayCount{day.Format(time.DateOnly), t.days[n]})
	}
	return c
}
