package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/sqlite/journal"
)

// Segments are merged as they age, so that a destination has few objects: those of a minute when it is over, and
// those of an hour an hour later. A merged segment has every commit with its time.
const mergedBytes = 16 << 20 // of a merged segment

// shortestMerge returns the length of the shortest time whose segments are merged. With --backup-sync there are
// hundreds of segments in a second.
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

// mergeOld merges the segments that are old enough at a time. A damaged segment does not keep others from being merged.
func (s *Service) mergeOld(ctx context.Context, now time.Time) error {
	g, err := s.graph(ctx)
	if err != nil {
		return err
	}
	s.copier.checkCopied(g)
	old, err := s.superseded(ctx, g.all)
	errs := []error{err, s.deleteSegments(ctx, old)}
	all := slices.DeleteFunc(g.all, func(g segment) bool { return slices.Contains(old, g) })
	var encoder journal.Encoder
	for len(all) > 0 {
		group := mergeable(all, now, s.shortestMerge())
		if len(group) > 1 {
			errs = append(errs, s.merge(ctx, &encoder, group))
		}
		all = all[len(group):]
	}
	return errors.Join(errs...)
}

// superseded returns the segments whose commits are all in a longer segment: a killed server may have left them
// beside the one that replaces them. It reads the longer one.
func (s *Service) superseded(ctx context.Context, all []segment) (old []segment, err error) {
	for i, merged := range all {
		var parts []segment
		for j := i - 1; j >= 0 && all[j].First == merged.First; j-- { // sorted by the first and the last commit
			if all[j].Last < merged.Last && !s.apart[[2]string{merged.name, all[j].name}] {
				parts = append(parts, all[j])
			}
		}
		for _, g := range all[i+1:] {
			if g.First > merged.Last {
				break
			}
			if g.First > merged.First && g.Last <= merged.Last && !s.apart[[2]string{merged.name, g.name}] {
				parts = append(parts, g)
			}
		}
		if len(parts) == 0 {
			continue
		}
		content, errCheck := s.archive.check(ctx, merged)
		if errCheck != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.to.location(merged.name), errCheck))
			continue
		}
		inside := map[end]bool{startOf(merged): true}
		wanted := map[int64]bool{}
		for _, g := range parts {
			wanted[g.First-1], wanted[g.Last] = true, true
		}
		_, _ = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
			if wanted[c.Number] {
				inside[end{c.Number, after.Short()}] = true
			}
			return nil
		}) // check has read it
		for _, g := range parts {
			if inside[startOf(g)] && inside[endOf(g)] {
				old = append(old, g)
			} else {
				s.apart[[2]string{merged.name, g.name}] = true
			}
		}
	}
	return old, err
}

// mergeable returns the first segments that one segment can replace, at least one. Each follows the one before, and
// they are from the same hour, minute, or shorter time, which ended as long ago.
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
		content, err := s.archive.check(ctx, g)
		if err != nil {
			return fmt.Errorf("%s: %w", s.to.location(g.name), err)
		}
		contents[i] = content
	}
	merged, content, err := encoder.Merge(contents)
	if err != nil {
		return fmt.Errorf("merge %s and the segments after it: %w", s.to.location(group[0].name), err)
	}
	if err := s.to.put(ctx, merged.Name(s.names.segmentPrefix()), content); err != nil {
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

// removeOldSegments removes the segments that end before all scheduled backups, whole or not and also of another
// store: a backup that cannot be read now may be the one that they follow.
func (s *Service) removeOldSegments(ctx context.Context) error {
	files, err := s.files(ctx)
	if err != nil {
		return err
	}
	var oldest time.Time
	for _, b := range files {
		if !b.Manual && checkTime(b) == nil && (oldest.IsZero() || b.At.Before(oldest)) {
			oldest = b.At
		}
	}
	all, err := listSegments(ctx, s.to, s.names)
	if err != nil {
		return err
	}
	// A commit has the time of its start. A backup that began later may lack it, because it ended after that.
	const commitMax = time.Hour
	oldest = oldest.Add(-commitMax)
	return s.deleteSegments(ctx, slices.DeleteFunc(all, func(g segment) bool { return !g.To.Before(oldest) }))
}
