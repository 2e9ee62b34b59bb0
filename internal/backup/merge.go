package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"plantstore/internal/s3"
	"plantstore/internal/sqlite/journal"
)

// To keep the number of objects small, the server first merges the segments of each minute, and later those of each
// hour. A merged segment still has every commit and its time.
const (
	mergedBytes = 16 << 20 // largest size of a merged segment
	unmergedMax = 256      // segments that stay whatever their times are
)

// shortestMerge returns the length of the shortest time whose segments are merged. With --backup-sync there are
// hundreds of segments in a second. If no segment can be removed, each merge adds one.
func (s *Service) shortestMerge() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.refusedAt.IsZero():
		return refusedWait
	case s.config.Sync:
		return 5 * time.Second
	}
	return time.Minute
}

// refusedWait is the time from a removal that the keys may not do until the next attempt.
const refusedWait = time.Hour

// mayRemove reports whether the keys may remove files, as far as it is known.
func (s *Service) mayRemove() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.refusedAt) >= refusedWait
}

// remove removes files, unless the keys may not do that, as those that an intruder can't use to destroy the backups.
// Everything else works without, so this is no error.
func (s *Service) remove(do func() error) error {
	if !s.mayRemove() {
		return nil
	}
	err := do()
	denied := errors.Is(err, s3.ErrDenied)
	s.mu.Lock()
	first := s.refusedAt.IsZero()
	switch {
	case denied:
		s.refusedAt = time.Now()
	case err == nil:
		s.refusedAt = time.Time{}
	}
	s.mu.Unlock()
	if !denied {
		return err
	}
	s.notRemoved.Inc()
	if first {
		s.config.Log.Warn("the keys may not remove old backups and segments; a lifecycle rule of the bucket has to",
			"destination", s.to.location(""), "error", err)
	}
	return nil
}

// mergeSegments merges segments until Close.
func (s *Service) mergeSegments() {
	for waitUntil(s.ctx, time.Now().Add(s.shortestMerge())) {
		s.mergeRound(s.ctx, time.Now())
	}
}

// merging is the state of the merges for Numbers and the console.
type merging struct {
	segments int64     // in the destination, at the last merge
	since    time.Time // when the first merge began that has not succeeded; zero: none
	fault    error     // why the last merge failed
}

// mergeRound merges what is old enough at a time, and logs the first fault.
func (s *Service) mergeRound(ctx context.Context, now time.Time) {
	s.mu.Lock()
	before := s.merging.fault
	if s.merging.since.IsZero() {
		s.merging.since = time.Now()
	}
	s.mu.Unlock()
	err := s.mergeOld(ctx, now)
	if err != nil && before == nil && ctx.Err() == nil {
		s.config.Log.Warn("could not merge segments; their number grows until it succeeds",
			"destination", s.to.location(""), "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.merging.fault = err; err == nil {
		s.merging.since = time.Time{}
	}
}

// mergeOld merges the segments of the own timeline, and of those that it follows, that are old enough at a time. A
// damaged segment does not keep others from being merged. A fenced server may merge the same ones: each removes only
// what it has stored in another segment, and read back.
func (s *Service) mergeOld(ctx context.Context, now time.Time) error {
	at, known := s.copier.copied() // before the list, which may lack later segments
	if !known {
		return nil
	}
	if err := s.checkOwner(ctx, s.ownTimeline()); err != nil {
		return err
	}
	c, err := s.contents(ctx)
	if err != nil {
		return err
	}
	count := int64(0)
	for _, all := range c.segments {
		count += int64(len(all))
	}
	s.mu.Lock()
	s.merging.segments = count
	s.mu.Unlock()
	id := s.ownTimeline()
	if !c.leads(id, at) { // somebody has removed backups or segments
		s.needBackup(at)
	}
	var errs []error
	var encoder journal.Encoder
	kept := false // the newest segment stays: a list that lacks those before it, because of this merge, has a gap then
	for _, part := range c.line(id) {
		all := c.segments[part.timeline]
		if needed := c.needed[part.timeline]; !kept && len(needed) > 0 {
			newest := func(g segment) bool { return g.name == needed[len(needed)-1].name }
			all, kept = all[:slices.IndexFunc(all, newest)], true
		}
		for len(all) > 0 {
			group, covered := mergeable(all, now, s.shortestMerge())
			all = all[len(group)+len(covered):]
			if len(group) > 1 || len(covered) > 0 && s.mayRemove() {
				errs = append(errs, s.merge(ctx, &encoder, c, group, covered))
			}
		}
	}
	return errors.Join(errs...)
}

// mergeable returns the first segments of a list that one segment can replace: they follow each other, and are from the
// same hour, minute, or shorter time, which ended as long ago. covered are those whose commits another one of them has:
// a killed server has left them.
func mergeable(all []segment, now time.Time, shortest time.Duration) (group, covered []segment) {
	first := all[0]
	span := time.Duration(0)
	if len(all) > unmergedMax { // such as after the clock was set back
		span = shortest
	}
	for _, longer := range []time.Duration{shortest, time.Minute, time.Hour} {
		if longer >= shortest && now.Sub(first.To.Truncate(longer)) >= 2*longer {
			span = longer
		}
	}
	bytes := int64(0)
	for _, s := range all {
		switch n := len(group); {
		case n > 0 && s.Last <= group[n-1].Last:
			covered = append(covered, s)
			continue
		case n > 0 && (span == 0 || s.First != group[n-1].Last+1 || bytes+s.bytes > mergedBytes ||
			!s.To.Truncate(span).Equal(first.To.Truncate(span))):
			return group, covered
		}
		group = append(group, s)
		bytes += s.bytes
	}
	return group, covered
}

// merge replaces segments by one, and removes those that they cover. It removes them after that is stored and was read
// back, so each commit is in the destination at any time. A killed server may leave some of them, which the next one
// removes: a restore works with both.
func (s *Service) merge(
	ctx context.Context, encoder *journal.Encoder, in *contents, group, covered []segment,
) error {
	contents := make([][]byte, len(group))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, g := range group {
		reads.Go(func() (err error) {
			ok := false
			if contents[i], ok = s.recent.get(g.name); !ok {
				contents[i], err = s.archive.readSegment(reading, g)
			}
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	last := group[len(group)-1]
	want := last.Segment
	want.First = group[0].First
	merged, content, err := encoder.Merge(contents)
	name := want.Name(s.names.segmentPrefix())
	if err == nil && merged.Name(s.names.segmentPrefix()) != name {
		err = fmt.Errorf("%w: they have the content of other segments", journal.ErrDamaged)
	}
	if err != nil {
		s.bypass(in, last, err)
		return fmt.Errorf("merge %s and the segments after it: %w", s.to.location(group[0].name), err)
	}
	if err := s.to.put(ctx, name, content); err != nil {
		return err
	}
	if err := s.archive.check(ctx, segment{merged, name, int64(len(content))}); err != nil {
		return err
	}
	old := slices.DeleteFunc(slices.Concat(group, covered), func(g segment) bool { return g.name == name })
	return s.deleteSegments(ctx, old)
}

// readsAtOnce is the number of segments that are read at the same time.
const readsAtOnce = 8

// bypass makes a backup due if one of the segments up to the last one is damaged, unless there is one after them: a
// restore that begins with that needs no segment before it.
func (s *Service) bypass(in *contents, last segment, err error) {
	line := in.line(s.ownTimeline())
	later := func(b Backup) bool { return isOn(line, b.Manifest) && b.Manifest.Commits >= last.Last }
	if at, _ := s.copier.copied(); errors.Is(err, journal.ErrDamaged) && !slices.ContainsFunc(in.bases, later) {
		s.needBackup(at)
	}
}

func (s *Service) deleteSegments(ctx context.Context, old []segment) error {
	names := make([]string, len(old))
	for i, g := range old {
		names[i] = g.name
		s.recent.forget(g.name)
	}
	if len(names) == 0 {
		return nil
	}
	return s.remove(func() error { return s.to.delete(ctx, names...) })
}

// removeOldSegments removes the segments that end before all scheduled backups, whole or not and also of another
// store: a backup that cannot be read now may be the one that they follow.
func (s *Service) removeOldSegments(ctx context.Context) error {
	c, err := s.contents(ctx)
	if err != nil {
		return err
	}
	commits := int64(math.MaxInt64) // fewest that a backup has
	for _, b := range c.bases {
		if !b.Manual {
			commits = min(commits, b.Manifest.Commits)
		}
	}
	kept, current := keptSince(c.files), s.ownTimeline()
	line, diverged := c.line(current), c.diverged(current) // such as of a server that has taken over meanwhile
	var old []segment
	for id, all := range c.segments {
		if slices.Contains(diverged, id) {
			continue
		}
		leads := slices.ContainsFunc(line, func(part stretch) bool { return part.timeline == id })
		for _, g := range all {
			if g.To.Before(kept) && !(leads && g.Last > commits) { // else the clock was ahead at the time of the backup
				old = append(old, g)
			}
		}
	}
	if err := s.deleteSegments(ctx, old); err != nil {
		return err
	}
	for id, t := range c.timelines { // that were not the current ones at any time that is kept
		ended := func(next timeline) bool { return next.Since.After(t.Since) && next.Since.Before(kept) }
		if id != current && !c.isUsed(id) && slices.ContainsFunc(slices.Collect(maps.Values(c.timelines)), ended) {
			if err := s.remove(func() error { return s.to.delete(ctx, s.names.timelineName(id)) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// keptSince returns the time since which retention keeps segments.
func keptSince(files []Backup) time.Time {
	var oldest time.Time
	for _, b := range files {
		if !b.Manual && checkTime(b) == nil && (oldest.IsZero() || b.At.Before(oldest)) {
			oldest = b.At
		}
	}
	// A commit has the time of its start. A backup that began later may lack it, because it ended after that.
	const commitMax = time.Hour
	return oldest.Add(-commitMax)
}
