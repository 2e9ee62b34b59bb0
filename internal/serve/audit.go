package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
)

// serverAudit writes the audit log of a server.
type serverAudit struct {
	*audit.Recorder

	by audit.Origin
}

func (v *instance) openAudit(context.Context) error {
	v.audit = &serverAudit{Recorder: audit.NewRecorder(v.engine.AppendAudit, v.log), by: v.By}
	v.onClose(v.audit.Close)
	return nil
}

// recordStart records the start of the server with its settings, and starts the removal of old entries. It follows
// openBackups: a server that does not own the destination changes nothing in the store, so it can still catch up.
func (v *instance) recordStart(ctx context.Context) error {
	a := v.audit
	details := append(auditDetails(v.Settings, v.Env), audit.Detail{Key: "version", Value: v.Version})
	if v.restored != nil {
		a.Record(a.event(audit.StoreRestore, v.restored...))
	}
	a.Record(a.event(audit.ServerStart, details...))
	a.Flush(ctx) // before any other entry of this server
	var pruning sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	keep := v.Settings.AuditKeep // here, because a reload replaces the settings
	pruning.Go(func() { a.prune(ctx, v.engine, keep, v.log) })
	v.onClose(func() { // before the backups copy the last commit
		cancel()
		pruning.Wait()
		if v.backups == nil || v.backups.Fault() == nil { // what a fenced server stores, the destination lacks
			a.Record(a.event(audit.ServerStop))
			a.Flush(context.Background())
		}
	})
	return nil
}

func (a *serverAudit) event(action audit.Action, details ...audit.Detail) audit.Event {
	return audit.Event{Time: time.Now(), Action: action, Origin: a.by, Details: details}
}

// prune removes the entries that are older than keep once a day, unless keep is 0.
func (a *serverAudit) prune(ctx context.Context, engine Engine, keep time.Duration, log *slog.Logger) {
	if keep == 0 {
		return
	}
	for {
		removed, err := admin.PruneAudit(ctx, engine, time.Now().Add(-keep), a.by)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn("could not remove old entries of the audit log", "error", err)
		case removed > 0:
			log.Info("removed old entries of the audit log", "entries", removed)
		}
		select {
		case <-time.After(config.Day):
		case <-ctx.Done():
			return
		}
	}
}

// auditDetails returns the settings in force and the sources of those that differ from the default, without secrets.
func auditDetails(s *config.Settings, env *config.Environment) (details []audit.Detail) {
	for _, row := range s.AllSettings() {
		details = append(details, audit.Detail{Key: "setting." + row.Name, Value: env.Hide(row.Value.String())})
		if source := s.Sources[row.Name]; source != config.Default {
			details = append(details, audit.Detail{Key: "source." + row.Name, Value: source})
		}
	}
	return details
}
