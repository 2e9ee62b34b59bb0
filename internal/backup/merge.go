package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/sqlite/journal"
)

// Segments are merged as they age, so that a destination has few objects: those of a minute when it is over, and
// those of an hour an hour later. A merged segment has every commit with its time.
const mergedBytes = 16 << 20 // of a merged segment

// shortestMerge returns the length of the shortest time whose segments are merged. With --backup-sync there are hundreds of
// segments in a second.
func (s *Service) shortestMerge() time.Duration {
	if s.config.Sync {
		return 5 * time.Second
	}
	return time.Minute
}

// mergeSegments merges segments until Close.
func (s *Service) mergeSegments() {
	failed := false
	for waitUntil(s.ctx, time.Now().Add(s.shortestMerge())) {
		err := s.mergeOld(s.ctx, time.Now())
		if err != nil && !failed && s.ctx.Err() == nil {
			s.config.Log.Warn("could not merge segments; their number grows until it succeeds",
				"destination", s.to.location(""), "error", err)
		}
		failed = err != nil
	}
}

// mergeOld merges the segments that are old enough at a time.
func (s *Service) mergeOld(ctx context.Context, now time.Time) error {
	all, err := listSegments(ctx, s.to, s.names)
	if err != nil {
		return err
	}
	// A killed server may have left segments beside the one that replaces them.
	old := superseded(all)
	if err := s.deleteSegments(ctx, old); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(g segment) bool { return slices.Contains(old, g) })
	var encoder journal.Encoder
	for len(all) > 0 {
		group := mergeable(all, now, s.shortestMerge())
		if len(group) > 1 {
			if err := s.merge(ctx, &encoder, group); err != nil {
				return err
			}
		}
		all = all[len(group):]
	}
	return nil
}

// superseded returns the segments whose commits are all in a longer segment.
func superseded(all []segment) (old []segment) {
	for _, merged := range all {
		commits, history := merged.First-1, merged.Before
		var parts []segment
		for _, g := range all { // sorted by the first commit
			if g != merged && g.Last <= merged.Last && g.Follows(commits, history) {
				parts = append(parts, g)
				commits, history = g.Last, g.After
			}
		}
		if commits == merged.Last && history == merged.After {
			old = append(old, parts...)
		}
	}
	return old
}

// mergeable returns the first segments that one segment can replace, at least one. Each follows the one before, and they are
// from the same hour, minute, or shorter time, which ended as long ago.
func mergeable(all []segment, now time.Time, shortest time.Duration) (group []segment) {
	spanOf := func(s segment) time.Duration {
		for _, span := range []time.Duration{time.Hour, time.Minute, shortest} {
			if now.Sub(s.To.Truncate(span)) >= 2*span {
				return span
			}
		}
		return 0
	}
	span, bytes := spanOf(all[0]), all[0].bytes
	for i := 1; i < len(all) && span > 0; i++ {
		s, last := all[i], all[i-1]
		bytes += s.bytes
		if !s.Follows(last.Last, last.After) || bytes > mergedBytes || !s.To.Truncate(span).Equal(all[0].To.Truncate(span)) {
			return all[:i]
		}
		group = all[:i+1]
	}
	return all[:max(1, len(group))]
}

// merge replaces segments by one. It removes them after that is stored, so each commit is in the destination at any
// time.
func (s *Service) merge(ctx context.Context, encoder *journal.Encoder, group []segment) error {
	contents := make([][]byte, len(group))
	for i, g := range group {
		content, err := readSegment(ctx, s.to, g)
		if err != nil {
			return err
		}
		contents[i] = content
	}
	merged, content, err := encoder.Merge(contents)
	if err != nil {
		return fmt.Errorf("merge %s and the segments after it: %w", s.to.location(group[0].name), err)
	}
	name := merged.Name(s.names.segmentPrefix())
	if err := s.to.put(ctx, name, content); err != nil {
		return err
	}
	return s.deleteSegments(ctx, group)
}

// deleteSegments removes segments.
func (s *Service) deleteSegments(ctx context.Context, old []segment) error {
	for _, g := range old {
		if err := s.to.delete(ctx, g.name); err != nil {
			return err
		}
	}
	return nil
}

// removeOldSegments removes the segments that end before a time: no backup that is older is kept.
func (s *Service) removeOldSegments(ctx context.Context, before time.Time) error {
	all, err := listSegments(ctx, s.to, s.names)
	if err != nil {
		return err
	}
	var old []segment
	for _, g := range all {
		if g.To.Before(before) {
			old = append(old, g)
		}
	}
	return s.deleteSegments(ctx, old)
}
