package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
)

// A restore copies the backup of its plan, and repeats the commits of its segments on the copy, before anybody else can
// open it. The servers go on meanwhile:
//
//   - One may have merged a segment that is missing now. The restore plans again from the commit that it has reached,
//     and stops only if it gets no further (repeatAll).
//   - Retention may have removed the backup. The restore begins again (retryMissing).
//   - A damaged backup is left out. The segments after an older one have the same commits.

// Recovered describes a restored store.
type Recovered struct {
	Backup   string    `json:"backup"`   // name of the backup that the restore began with
	Segments int       `json:"segments"` // number of segments after it
	Commits  int64     `json:"commits"`  // number of the last commit
	At       time.Time `json:"at"`       // its time, or the time of the backup without a segment
	Plants   int64     `json:"plants"`
	Timeline string    `json:"timeline"`           // has the last commit; empty if no server made the backup
	Faults   []string  `json:"faults,omitempty"`   // damaged backups that the restore left out
	LeftOut  []string  `json:"left_out,omitempty"` // descriptions of the commits that are not in the newest state
}

// Point is a state of the store that a restore can return. The zero value is the newest state of the owner.
type Point struct {
	Timeline string    // empty: the owner's
	At       time.Time // the zero time: the newest commit
}

// Restore restores the store at path as it was at a point: with every commit that was acknowledged before, and none
// that began later. Like backupfile.RestoreFrom, it creates the whole store or changes nothing.
//
// The error names the segment that is missing or damaged, and the last time before it, which another call can restore.
func (a *Archive) Restore(
	ctx context.Context, path string, point Point, replace bool, progress backupfile.Progress,
) (r Recovered, err error) {
	err = retryMissing(func() (err error) {
		c, err := a.contents(ctx)
		if err != nil {
			return err
		}
		r.Faults = c.faults()
		for {
			p, err := c.planFor(point)
			if err != nil {
				return err
			}
			if _, end := p.end(); point.At.After(time.Now()) && point.At.After(end) {
				return fmt.Errorf("%s is in the future; the newest commit is of %s; restore that one without a time",
					point.At.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
			}
			faults := r.Faults
			r, err = a.restore(ctx, p, path, replace, progress)
			r.Faults, r.LeftOut = faults, p.leftOut
			if !isDamage(err) {
				return err
			}
			// The segments after an older backup have the same commits.
			r.Faults = append(r.Faults, fmt.Sprintf("%s: %v", a.to.location(p.base.Name), err))
			c.forget(p.base)
		}
	})
	if err != nil && len(r.Faults) > 0 {
		err = fmt.Errorf("%s: %w", strings.Join(r.Faults, "; "), err)
	}
	return r, err
}

// isDamage reports whether an error is about a backup that is incomplete or damaged.
func isDamage(err error) bool {
	_, incomplete := errors.AsType[backupfile.ManifestError](err)
	_, damaged := errors.AsType[backupfile.DamageError](err)
	return incomplete || damaged
}

// restore restores the store of a plan.
func (a *Archive) restore(
	ctx context.Context, p plan, path string, replace bool, progress backupfile.Progress,
) (r Recovered, err error) {
	in, err := a.to.open(ctx, p.base.Name)
	if err != nil {
		return r, err
	}
	defer in.Close()
	r = Recovered{Backup: p.base.Name, At: p.base.Manifest.MadeAt, Timeline: p.timeline}
	later := backupfile.Later{Timeline: p.timeline, Newest: p.newest}
	if len(p.steps) > 0 {
		later.Repeat = func(to *backupfile.Replay) error { return a.repeatAll(ctx, p, to, &r) }
	}
	got, err := backupfile.RestoreFrom(ctx, in, &p.base.Manifest, path, replace, progress, later)
	r.Commits, r.Plants = got.Commits, got.Plants
	return r, err
}

// repeatAll repeats the commits of a plan. A server may merge segments meanwhile: the merged one has those commits too.
func (a *Archive) repeatAll(ctx context.Context, p plan, to *backupfile.Replay, r *Recovered) error {
	for begun := int64(-1); ; {
		var err error
		for _, s := range p.steps {
			if err = a.repeat(ctx, p, s, to, r); err != nil {
				break
			}
		}
		have, _ := to.Commits()
		if !errors.Is(err, fs.ErrNotExist) || have == begun {
			return err
		}
		begun = have
		c, errList := a.contentsWith(ctx, nil)
		if errList != nil {
			return errList
		}
		again, errPlan := c.stepsAfter(c.line(p.timeline), have, r.At, p.at)
		if errPlan != nil || len(again) == 0 { // it has removed some
			return cmp.Or(errPlan, err)
		}
		p.steps = again
	}
}

// repeat repeats commits of a step: those after the last one of the store, up to the end of the step and the time.
func (a *Archive) repeat(ctx context.Context, p plan, s step, to *backupfile.Replay, r *Recovered) error {
	content, err := a.readSegment(ctx, s.segment)
	if err != nil {
		return err
	}
	whole := r.At
	if r.Segments == 0 {
		whole = until(p.base.Manifest)
	}
	err = a.each(s.segment, content, func(c *journal.Commit, after journal.History) error {
		have, history := to.Commits()
		switch {
		case c.Number > s.until, !p.at.IsZero() && c.At.After(p.at):
			return nil
		case c.Number > have:
			r.At = c.At
			return to.Commit(c, after)
		case c.Number == have && after != history:
			return backupfile.ErrOtherHistory
		}
		return nil
	})
	if err != nil && !errors.Is(err, journal.ErrDamaged) { // a commit of a damaged segment may not apply either
		err = cmp.Or(a.each(s.segment, content, func(*journal.Commit, journal.History) error { return nil }), err)
	}
	if errors.Is(err, journal.ErrDamaged) {
		err = fmt.Errorf("%w; %s", err, a.remedy(whole))
	}
	if err == nil {
		r.Segments++
	}
	return err
}

// remedy tells what to do if the commits after a time are missing or damaged.
func (a *Archive) remedy(whole time.Time) string {
	if a.follows {
		return "the standby goes on after the next backup: make one in the console of the server that accepts plants, or " +
			"with POST /api/v1/backups there"
	}
	return restoreUntil(whole)
}

// restoreUntil tells how to restore what is whole before a time.
func restoreUntil(at time.Time) string {
	return "to restore the store as it was before, add --at " + at.UTC().Format(time.RFC3339Nano)
}
