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

// loss returns what cannot be restored without a backup: nothing, if an earlier one and segments lead to its last
// commit.
func (c *contents) loss(b Backup) (l Loss) {
	line := c.line(b.Manifest.Timeline)
	line[0].last = b.Manifest.Commits
	reached := int64(-1)
	for _, other := range c.bases {
		m := other.Manifest
		switch {
		case other.Name == b.Name:
		case isOn(line, m) && m.Commits > reached:
			reached, l.After = m.Commits, until(m)
		case until(m).After(until(b.Manifest)) && isOn(c.line(m.Timeline), b.Manifest) &&
			(l.Before.IsZero() || until(m).Before(l.Before)):
			l.Before = until(m)
		}
	}
	if reached >= 0 {
		steps, _ := c.stepsAfter(line, reached, l.After, time.Time{}) // those before the error count
		if n := len(steps); n > 0 {
			reached, l.After = steps[n-1].until, steps[n-1].To
		}
	}
	if reached >= b.Manifest.Commits {
		return Loss{}
	}
	l.Some = true
	return l
}
