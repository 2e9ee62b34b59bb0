package move

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"plantstore/internal/audit"
)

// event returns an event of the move. Its entry in the source is copied to the destination with the others.
func (m *mover) event(action audit.Action) audit.Event {
	e := audit.Event{Time: time.Now(), Action: action, Origin: m.By, Details: []audit.Detail{
		{Key: "from", Value: m.FromName}, {Key: "to", Value: m.ToName},
	}}
	if action == audit.MoveEnd {
		e.Details = append(e.Details,
			audit.Detail{Key: "plants", Value: strconv.FormatInt(m.result.Plants, 10)},
			audit.Detail{Key: "tokens", Value: strconv.Itoa(m.result.Tokens)})
	}
	return e
}

// putAudit copies the rows of the audit log that the destination does not have. It returns an error unless the log of
// the destination is then a part of the log of the source.
func (m *mover) putAudit(ctx context.Context) error {
	from, err := m.From.AuditEnds(ctx)
	if err != nil {
		return err
	}
	to, err := m.To.AuditEnds(ctx)
	if err != nil {
		return err
	}
	last := to.Head
	if to == (audit.Ends{}) {
		last = from.Anchor
	}
	if last.Sequence < from.Anchor.Sequence {
		return fmt.Errorf("%w: %s has pruned entries of its audit log that %s does not have; move into a new store",
			errDifferent, m.FromName, m.ToName)
	}
	if err := m.compareAudit(ctx, from, last); err != nil {
		return err
	}
	const rowsMax = 100
	for {
		rows, err := m.From.AuditRows(ctx, last.Sequence, rowsMax)
		if err != nil {
			return err
		}
		if err := m.To.PutAudit(ctx, from.Anchor, rows); err != nil {
			return fmt.Errorf("copy the audit log: %w", err)
		}
		if len(rows) < rowsMax {
			return nil
		}
		last = rows[len(rows)-1].Link()
	}
}

// compareAudit returns an error unless an entry is part of the log of the source.
func (m *mover) compareAudit(ctx context.Context, from audit.Ends, link audit.Link) error {
	if link == from.Anchor {
		return nil
	}
	rows, err := m.From.AuditRows(ctx, link.Sequence-1, 1)
	if err == nil && (len(rows) == 0 || rows[0].Link() != link) {
		err = fmt.Errorf("%w: the audit log of %s is not the log of %s; move into a new store",
			errDifferent, m.ToName, m.FromName)
	}
	return err
}
