package serve

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/store"
)

// serverAudit writes the audit log of a server.
type serverAudit struct {
	*audit.Recorder

	by     audit.Origin
	cancel context.CancelFunc // ends prune
	pruned chan struct{}      // closed when prune has ended
}

// openAudit records the start of the server with its settings, and starts the removal of old entries.
func (v *instance) openAudit(ctx context.Context) error {
	a := &serverAudit{
		Recorder: audit.NewRecorder(v.engine.AppendAudit, v.log), by: v.By, pruned: make(chan struct{}),
	}
	details := append(auditDetails(v.Settings, v.Env), audit.Detail{Key: "version", Value: v.Version})
	a.Record(a.event(audit.ServerStart, details...))
	a.Flush(ctx) // before any other entry of this server
	ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	keep := time.Duration(v.Settings.Audit.Keep) // here, because a reload replaces the settings
	go func() {                                  // ends with ctx; stop waits for it
		defer close(a.pruned)
		a.prune(ctx, v.engine, keep, v.log)
	}()
	v.audit = a
	v.onClose(a.stop)
	return nil
}

func (a *serverAudit) event(action audit.Action, details ...audit.Detail) audit.Event {
	return audit.Event{Time: time.Now(), Action: action, Origin: a.by, Details: details}
}

// stop records the end of the server.
func (a *serverAudit) stop() {
	a.cancel()
	<-a.pruned
	a.Record(a.event(audit.ServerStop))
	a.Close()
}

// prune removes the entries that are older than keep once a day, unless keep is 0.
func (a *serverAudit) prune(ctx context.Context, engine Engine, keep time.Duration, log *slog.Logger) {
	if keep == 0 {
		return
	}
	for due := time.Now(); waitUntil(ctx, due); due = due.Add(24 * time.Hour) {
		removed, err := PruneAudit(ctx, engine, time.Now().Add(-keep), a.by)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn("could not remove old entries of the audit log", "error", err)
		case removed > 0:
			log.Info("removed old entries of the audit log", "entries", removed)
		}
	}
}

// PruneAudit removes the oldest entries up to the first one that is not before a time, in batches, and returns their
// number.
func PruneAudit(
	ctx context.Context, engine Engine, before time.Time, by audit.Origin,
) (removed int64, err error) {
	const batchMax = 1000
	for {
		ends, err := engine.AuditEnds(ctx)
		if err != nil {
			return removed, err
		}
		rows, err := engine.AuditRows(ctx, ends.Anchor.Sequence, batchMax)
		if err != nil {
			return removed, err
		}
		n, err := olderRows(ends.Anchor, rows, before)
		if err != nil {
			if now, errEnds := engine.AuditEnds(ctx); errEnds == nil && now.Anchor != ends.Anchor {
				continue // another server has pruned between the two reads
			}
		}
		if err != nil || n == 0 {
			return removed, err
		}
		more, err := engine.PruneAudit(ctx, rows[n-1].Link(), by)
		removed += more
		if err != nil || n < batchMax {
			return removed, err
		}
	}
}

// olderRows returns the number of rows before the first one that is not before a time. The rows follow an entry. It
// returns an error for a damaged row, because verify could not detect the damage after the row is removed.
func olderRows(last audit.Link, rows []audit.Row, before time.Time) (n int, err error) {
	for _, row := range rows {
		if err := row.Follows(last); err != nil {
			return 0, fmt.Errorf("%w: %w", store.ErrAuditFault, err)
		}
		last = row.Link()
		e, err := row.Entry()
		if err != nil {
			return 0, err
		}
		if !e.Time.Before(before) {
			break
		}
		n++
	}
	return n, nil
}

// waitUntil waits until a time and returns true. It returns false when ctx ends.
func waitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// auditDetails returns the settings in force and the sources of those that differ from the default, without secrets.
func auditDetails(s *config.Settings, env *config.Environment) (details []audit.Detail) {
	for _, row := range s.AllSettings() {
		details = append(details, audit.Detail{Key: "setting." + row.Name, Value: env.Hide(row.Value.String())})
		if source := s.Sources[row.Name]; source != "default" {
			details = append(details, audit.Detail{Key: "source." + row.Name, Value: source})
		}
	}
	return details
}
