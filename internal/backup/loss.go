package backup

import (
	"context"
	"slices"
	"time"
)

// Loss are the states of a store that no restore returns without a backup.
type Loss struct {
	Some   bool
	After  time.Time // they follow this one; the zero time: none is before them
	Before time.Time // they are before this one; the zero time: the newest one is lost too, until the next backup
}

// RestorableSince returns the time since which a restore has the state of every second, up to Schedule.Copied: the time
// of the oldest backup after which no commit is missing. It returns the zero time if only the states of backups are
// known.
func (s *Service) RestorableSince(ctx context.Context) (since time.Time, err error) {
	if s.Schedule().Copied.IsZero() {
		return since, nil
	}
	c, err := s.contents(ctx)
	if err != nil {
		return since, err
	}
	return c.restorableSince()
}

func (c *contents) restorableSince() (since time.Time, err error) {
	current, err := c.current()
	if err != nil {
		return since, err
	}
	line := c.line(current)
	for _, b := range c.bases {
		made := until(b.Manifest)
		if isOn(line, b.Manifest) && (since.IsZero() || made.Before(since)) {
			if _, err := c.stepsAfter(line, b.Manifest.Commits, made, time.Time{}); err == nil {
				since = made
			}
		}
	}
	return since, nil
}

// Loss returns what cannot be restored without a backup. A backup that is not complete is of no use.
func (s *Service) Loss(ctx context.Context, name string) (l Loss, err error) {
	c, err := s.contents(ctx)
	if err != nil {
		return l, err
	}
	if i := slices.IndexFunc(c.bases, func(b Backup) bool { return b.Name == name }); i >= 0 {
		l = c.loss(c.bases[i])
	}
	return l, nil
}

// loss returns what cannot be restored without a backup, which it forgets: nothing, if an earlier one and segments lead
// to its last commit.
func (c *contents) loss(b Backup) (l Loss) {
	line := c.line(b.Manifest.Timeline)
	line[0].last = b.Manifest.Commits
	c.forget(b)
	if base, err := c.baseOf(line, time.Time{}); err == nil {
		p := plan{base: base}
		p.steps, _ = c.stepsAfter(line, base.Manifest.Commits, until(base.Manifest), time.Time{}) // as far as they lead
		reached, at := p.end()
		if reached >= b.Manifest.Commits {
			return Loss{}
		}
		l.After = at
	}
	for _, other := range c.bases {
		at := until(other.Manifest)
		if at.After(until(b.Manifest)) && isOn(c.line(other.Manifest.Timeline), b.Manifest) &&
			(l.Before.IsZero() || at.Before(l.Before)) {
			l.Before = at
		}
	}
	l.Some = true
	return l
}
