package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
)

// A server becomes the owner by the protocol in owner.go if two things are right. The operator must allow it
// (mayTakeOver): by --take-over or --restore-missing, by a restore in the place of the owner's own store, or by a new
// start of the owner. And its store must have what its new timeline follows (nextTimeline), as FILE-origin tells:
//
//   - The store of the owner, or a copy of its file, must have the last commit of the destination with its history.
//   - A store that was restored to the newest state must have all commits of the destination. CatchUp makes the server
//     the owner first, so that no more of them are acknowledged, and restores the store again.
//   - A store that was restored to an earlier state goes on from there. What it leaves out is logged.
//   - Any other store in the place of the owner's follows nothing, and needs a backup of its own.

// follow makes this server the owner with a timeline of its own, if it continues the current one or may take over from
// its owner. What that one acknowledges until it is fenced is in the list that this one follows.
func (s *Service) follow(
	ctx context.Context, c *contents, current string, origin dbfile.Origin,
) (o ownership, err error) {
	_, errNext := s.nextTimeline(ctx, c, "", current, origin) // before the old owner is fenced
	if err := s.mayTakeOver(c, current, origin); err != nil {
		refusal, refused := errors.AsType[*OwnedError](err)
		if reason, ok := errors.AsType[*OwnedError](errNext); refused && ok && !origin.Newest { // --take-over would not help
			err = s.owned(refusal.Reason+", and "+reason.Reason, "")
		}
		return o, err
	}
	if s.dry && errNext != nil && origin.Newest && !origin.Holder {
		if unchanged, err := s.isUnchanged(ctx, origin); err != nil || unchanged { // CatchUp would restore the store
			return o, err
		}
	}
	if s.dry || errNext != nil {
		return o, errNext
	}
	id, c, err := s.putOwner(ctx, current)
	if err != nil {
		return o, err
	}
	if o, err = s.nextTimeline(ctx, c, id, current, origin); err != nil {
		return o, err
	}
	if origin.Holder && origin.Timeline == current {
		return o, s.hold(current) // its destination may have moved
	}
	if err := s.begin(ctx, &o); err != nil {
		return o, err
	}
	c.timelines[id] = o.timeline
	for _, left := range c.leftOut(id) {
		s.config.Log.Warn("the destination of the backups has commits that this store lacks", "commits", left)
	}
	if current != "" {
		s.config.Log.Info("took the destination of the backups over", "destination", s.to.location(""),
			"timeline", id, "after", o.From, "commits", o.Commits)
	}
	return o, nil
}

// mayTakeOver returns an error unless the operator has said that this server takes over from the current owner.
func (s *Service) mayTakeOver(c *contents, current string, origin dbfile.Origin) error {
	if current == "" {
		return nil // there is nothing to take over
	}
	diverged := c.diverged(current)
	if len(diverged) > 0 && !containsAll(s.config.TakeOver, append(diverged, current)) {
		return s.conflict(current, diverged)
	}
	may := func(id string) bool {
		return slices.Contains(s.config.TakeOver, id) ||
			id != "" && (origin.Replaces == id || origin.Holder && origin.Timeline == id)
	}
	missing := s.config.RestoreMissing && origin.Newest
	mayFollow := func(from string) bool { return from == "" || may(from) }
	if may(current) || missing || s.hasCaughtUp(c, "") || c.isUnusedSince(current, mayFollow) ||
		c.owner.After == current && may(c.owner.Timeline) { // which has not begun
		return nil
	}
	last, _ := c.end(current)
	by := c.owner
	if by.Timeline != current && by.After != current { // a server that was refused has stored its session since
		begun := c.timelines[current]
		by.Host, by.Since = begun.Host, begun.Since
	}
	return s.owned(fmt.Sprintf("belongs to the server on %s since %s, whose last commit there is %d",
		cmp.Or(by.Host, "an unknown host"), by.Since.UTC().Format(time.RFC3339), last), current)
}

// hasCaughtUp reports whether this server is the owner since its store has caught up, or with the timeline id since
// then: nobody has acknowledged anything that the store lacks.
func (s *Service) hasCaughtUp(c *contents, id string) bool {
	o := c.owner.Timeline
	return s.config.CaughtUp != "" && o != "" && (o == s.config.CaughtUp || o == id)
}

func containsAll(all, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(one string) bool { return !slices.Contains(all, one) })
}

func (s *Service) conflict(id string, diverged []string) error {
	all := append([]string{id}, diverged...)
	return s.owned(conflictText(all), strings.Join(all, ","))
}

func conflictText(timelines []string) string {
	return "has the timelines " + strings.Join(timelines, " and ") + " of servers that took over at the same time, and " +
		"each may have acknowledged plants that the others lack; restore each of them with --timeline, and compare"
}

// nextTimeline returns the timeline that this store begins: after the commit that a restore ended with, or after the
// newest commit of the destination if the store has it.
func (s *Service) nextTimeline(
	ctx context.Context, c *contents, id, current string, origin dbfile.Origin,
) (o ownership, err error) {
	o.timeline = timeline{ID: id, Store: s.archive.store, Since: time.Now().UTC(), Host: s.host}
	known := c.known(current)
	for _, id := range s.config.TakeOver {
		if c.hasCommits(id) {
			known[id] = true
		}
	}
	maps.DeleteFunc(known, func(id string, _ bool) bool { return c.timelines[id].ID == "" && !c.isUsed(id) }) // removed
	o.Knew = slices.Sorted(maps.Keys(known))
	o.Unused = slices.DeleteFunc(c.ids(), func(id string) bool { return id == "" || known[id] || c.hasCommits(id) })
	last, history := c.end(current)
	commits, _, err := backupfile.HistoryAt(ctx, s.path, last)
	if err != nil {
		return o, err
	}
	switch {
	case current == "":
		o.Commits = commits
		return o, nil
	case origin.Holder || origin.Timeline == "" && origin.Replaces == "": // it goes on, or is a copy of the file
		begun := c.isUnusedSince(current, func(from string) bool { return from == origin.Timeline })
		goesOn := begun || origin.Holder && origin.Timeline == current
		reason, err := s.differs(ctx, last, history, goesOn)
		if reason != "" {
			err = s.owned(reason, "")
		}
		if err != nil {
			return o, err
		}
		o.From, o.Commits, o.history = current, last, history
		if goesOn { // its first commits may be from before the restart
			o.Since = c.timelines[current].Since.Add(1)
		}
	case origin.Timeline == "": // the operator has replaced the store by one of unknown origin
		o.Commits = commits
	case commits < origin.Commits: // a power cut has taken some, because a standby does not sync each one
		return o, s.owned(fmt.Sprintf("has commits up to %d, and this store has lost those after %d, as in a power cut; "+
			"restore it again", last, commits), "")
	default:
		o.From, o.Commits, o.Earlier = origin.Timeline, origin.Commits, !origin.Newest
		newer := origin.Timeline != current && c.hasCommits(current) || last > origin.Commits
		if origin.Newest && newer && !s.hasCaughtUp(c, id) {
			return o, s.owned(fmt.Sprintf(
				"has commits up to %d, and this store was restored when %d was the last one, and changed since; restore it again",
				last, origin.Commits), "")
		}
	}
	for _, g := range c.segments[o.From] {
		if g.Last <= o.Commits && g.To.After(o.Since) { // the clock was ahead
			o.Since = g.To
		}
	}
	return o, nil
}

// differs tells why the store does not continue commits up to a number, with a short history after it; empty: it does.
// The store of the owner may have been served without the copy, so its history may be unknown.
func (s *Service) differs(ctx context.Context, last int64, history string, isOwner bool) (reason string, err error) {
	commits, own, err := backupfile.HistoryAt(ctx, s.path, last)
	switch {
	case err != nil:
		return "", err
	case commits < last:
		return fmt.Sprintf("has commits up to %d, and this store only up to %d: it is an older copy; "+
			"restore the newest state, or give this store another --backup-dir", last, commits), nil
	case own != (journal.History{}) && history != "" && own.Short() != history:
		return fmt.Sprintf("has another commit %d than this store: one of them went on after it was a copy of the other; "+
			"restore the newest state, or give this store another --backup-dir", last), nil
	case !isOwner && (own == (journal.History{}) || history == ""):
		return fmt.Sprintf("has commits up to %d, and nothing shows that this store has the same ones: it was served "+
			"without the copy of commits; restore the newest state, or give this store another --backup-dir", last), nil
	}
	return "", nil
}

// CatchUp restores the newest state again into a restored store which has no commits of its own, if this server may
// take over from one that went on: what that one acknowledged since is part of it then. r is the zero value if it
// restores nothing. No process may have the store open.
//
// It first makes this server the owner with a timeline, which it returns: nothing that the old server stores after that
// is acknowledged. The timeline is empty if there was no need to catch up.
func CatchUp(ctx context.Context, c Config) (id string, r Recovered, err error) {
	origin, err := dbfile.ReadOrigin(dbfile.RealPath(c.DB))
	if err != nil || origin.Holder || !origin.Newest {
		return "", r, err
	}
	s, err := newService(c)
	if err != nil {
		return "", r, err
	}
	return s.catchUp(ctx, origin)
}

// isUnchanged reports whether a restored store has no other commits than a restore has left in it.
func (s *Service) isUnchanged(ctx context.Context, origin dbfile.Origin) (bool, error) {
	commits, _, err := backupfile.HistoryAt(ctx, s.path, origin.Commits)
	return commits == origin.Commits || commits == origin.Entry, err
}

func (s *Service) catchUp(ctx context.Context, origin dbfile.Origin) (id string, r Recovered, err error) {
	if unchanged, err := s.isUnchanged(ctx, origin); err != nil || !unchanged {
		return "", r, err
	}
	all, err := s.contents(ctx)
	if err != nil {
		return "", r, err
	}
	current, err := all.current()
	if err == nil && current != "" {
		err = s.mayTakeOver(all, current, origin)
	}
	if err != nil || current == "" {
		return "", r, err
	}
	if id, all, err = s.putOwner(ctx, current); err != nil {
		return "", r, err
	}
	if last, _ := all.end(current); origin.Timeline == current && last == origin.Commits {
		return id, r, nil
	}
	if r, err = s.archive.Restore(ctx, s.config.DB, Point{}, true, nil); err != nil {
		return "", r, err
	}
	s.config.Log.Info("restored what the old owner of the backups has stored since the restore of this store",
		"plants", r.Plants, "commits", r.Commits, "at", r.At)
	return id, r, nil
}

// RecordedRestore remembers that the last commit of a store is the entry about its restore in the audit log, so that
// CatchUp may restore it again. No process may have the store open.
func RecordedRestore(ctx context.Context, path string) error {
	path = dbfile.RealPath(path)
	origin, err := dbfile.ReadOrigin(path)
	if err != nil {
		return err
	}
	commits, _, err := backupfile.HistoryAt(ctx, path, 0)
	if err != nil || commits != origin.Commits+1 { // else it has other commits too
		return err
	}
	origin.Entry = commits
	return dbfile.WriteOrigin(path, origin)
}
