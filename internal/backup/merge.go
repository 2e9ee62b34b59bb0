package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"plantstore/internal/sqlite/journal"
)

// To keep the number of objects small, the server first merges the segments of each minute, and later those of each
// hour. A merged segment still has every commit and its time.
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
	at, known := s.copier.copied() // before the list, which may lack later segments
	g, err := s.graph(ctx)
	if err != nil {
		return err
	}
	if known && !g.leads(at) { // somebody has removed backups or segments
		s.needBackup(at.commits)
	}
	var errs []error
	done := map[string]bool{}
	var encoder journal.Encoder
	for _, first := range g.all {
		if done[first.name] {
			continue
		}
		group := g.mergeable(first, done, now, s.shortestMerge())
		for _, m := range group {
			done[m.name] = true
		}
		if len(group) > 1 {
			errs = append(errs, s.merge(ctx, &encoder, g, group))
		}
	}
	return errors.Join(errs...)
}

// mergeable returns a segment and those after it that one segment can replace: they are from the same hour, minute, or
// shorter time, which ended as long ago, and not done yet.
func (g *graph) mergeable(first segment, done map[string]bool, now time.Time, shortest time.Duration) []segment {
	span := time.Duration(0)
	for _, longer := range []time.Duration{shortest, time.Minute, time.Hour} {
		if now.Sub(first.To.Truncate(longer)) >= 2*longer {
			span = longer
		}
	}
	group, bytes := []segment{first}, first.bytes
	for last := first; span > 0; group = append(group, last) {
		after := slices.DeleteFunc(slices.Clone(g.next[endOf(last)]), func(s segment) bool {
			return done[s.name] || startOf(s) != endOf(last) || !s.To.Truncate(span).Equal(first.To.Truncate(span))
		})
		if len(after) == 0 || bytes+after[0].bytes > mergedBytes {
			break
		}
		last = after[0]
		bytes += last.bytes
	}
	return group
}

// merge replaces segments by one. It removes them after that is stored, so each commit is in the destination at any
// time. A killed server may leave some of them, which it merges again: a restore works with both.
func (s *Service) merge(ctx context.Context, encoder *journal.Encoder, in *graph, group []segment) error {
	segments, contents := make([]journal.Segment, len(group)), make([][]byte, len(group))
	for i, g := range group {
		var err error
		if segments[i], contents[i], err = s.archive.check(ctx, g); err != nil {
			if errors.Is(err, journal.ErrDamaged) {
				s.bypass(in, g)
			}
			return fmt.Errorf("%s: %w", s.to.location(g.name), err)
		}
	}
	merged, content, err := encoder.Merge(segments, contents)
	if err != nil {
		return fmt.Errorf("merge %s and the segments after it: %w", s.to.location(group[0].name), err)
	}
	if err := s.to.put(ctx, merged.Name(s.names.segmentPrefix()), content); err != nil {
		return err
	}
	return s.deleteSegments(ctx, group)
}

// bypass makes a backup due because of a damaged segment, unless there is one after it: a restore that begins with that
// needs no segment before it.
func (s *Service) bypass(in *graph, damaged segment) {
	later := func(b Backup) bool { return b.Manifest.Commits >= damaged.Last }
	if at, known := s.copier.copied(); known && !slices.ContainsFunc(in.bases, later) {
		s.needBackup(at.commits)
	}
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
	commits := int64(math.MaxInt64) // of the backup with the fewest
	for _, b := range files {
		if b.Manual {
			continue
		}
		if s.inspect(ctx, &b); b.Fault == nil {
			commits = min(commits, b.Manifest.Commits)
		}
	}
	all, err := listSegments(ctx, s.to, s.names)
	if err != nil {
		return err
	}
	kept := keptSince(files)
	return s.deleteSegments(ctx, slices.DeleteFunc(all, func(g segment) bool {
		return !g.To.Before(kept) || g.Last > commits // whose clock was set back
	}))
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
