package move

import (
	"context"
	"fmt"

	"plantstore/internal/store"
)

// outboxMax is the most rows of an outbox that a move copies: the write pause is short.
const outboxMax = 100_000

// outboxRows returns the undelivered events and the dead letters of the source.
func (m *mover) outboxRows(ctx context.Context) ([]store.OutboxRow, error) {
	rows, err := m.From.OutboxRows(ctx, outboxMax+1)
	if err == nil && len(rows) > outboxMax {
		err = fmt.Errorf("%s has more than %d undelivered webhook events and dead letters, too many for the write pause: "+
			"wait for their delivery, or remove dead letters with plantstore webhook drop", m.FromName, outboxMax)
	}
	return rows, err
}

// putOutbox copies the webhooks and the outbox. The source is read-only, so its servers claim no more deliveries; the
// servers of the destination wait for the end of their claims.
func (m *mover) putOutbox(ctx context.Context) error {
	webhooks, err := m.From.Webhooks(ctx)
	if err != nil {
		return err
	}
	rows, err := m.outboxRows(ctx)
	if err != nil || len(webhooks) == 0 {
		return err
	}
	return m.To.PutOutbox(ctx, webhooks, rows)
}
