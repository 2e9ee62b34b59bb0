package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/backup"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// With --standby or --failover, two machines share the destination of the backups, and a server changes its role
// without a new process. Run closes all parts and opens them again in the next role; only the sockets stay open, where
// new connections wait meanwhile.
//
//   - A server is the owner unless another one is, or it has no store and the destination has one.
//   - A standby opens its store for reading, and follows the owner (package backup). It becomes the owner when it has
//     taken over, and opens its store again after that was restored.
//   - An owner becomes a standby when it is fenced, or when a standby asks for the destination.

// role is how a server starts, as the one before has left it. The zero value is the start of a process.
type role struct {
	follow   bool                        // be a standby
	caughtUp string                      // timeline of backup.CatchUp or of a standby that has taken over
	former   string                      // session by which this process was the owner, and which it has released
	sockets  map[string]*net.TCPListener // nil: none are open

	successor *role // the role after this one; nil: the process ends
}

// errRoleEnds is the cause of the end of a role by itself.
var errRoleEnds = errors.New("the role of the server has ended")

// openStandby opens the standby if this server is one.
func (v *instance) openStandby(ctx context.Context) (err error) {
	if v.follow, err = v.mustFollow(ctx); err != nil || !v.follow {
		return err
	}
	if v.standby, err = backup.NewStandby(v.backupConfig(), v.former); err != nil {
		return err
	}
	v.closing = append(v.closing, v.standby.Close)
	if err := v.answerEarly(ctx, func() error { return v.standby.Status() }); err != nil {
		return err
	}
	if err := v.standby.Open(ctx); err != nil {
		return v.refused(err)
	}
	promauto.With(v.metrics).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_standby_lag_seconds",
		Help: "Time since this standby had all commits of the destination of the backups.",
	}, func() float64 { return v.standby.Status().Behind().Seconds() })
	v.onStart(func(context.Context) { v.standby.Start() })
	return nil
}

// mustFollow reports whether this server is a standby: another one is the owner, or there is no store here but one in
// the destination.
func (v *instance) mustFollow(ctx context.Context) (follow bool, err error) {
	c := v.backupConfig()
	if v.follow || v.caughtUp != "" || !c.Standby && c.Failover == 0 {
		return v.follow, nil
	}
	reason := errors.New("there is no store here")
	switch info, errStat := os.Stat(c.DB); {
	case errStat == nil && info.Size() > 0, errStat != nil && !errors.Is(errStat, fs.ErrNotExist):
		ctx, cancel := context.WithTimeout(ctx, claimMax)
		defer cancel()
		c.RestoreMissing = false // it would let a standby take over at each start
		reason = backup.Check(ctx, c)
		follow = backup.IsRefusal(reason) || c.Standby && reason != nil // otherwise the claim reports it
	case c.Standby:
		follow = true
	default:
		follow, err = backup.HasBackup(ctx, c.Destination, c.S3, c.DB)
	}
	if follow {
		v.log.Info("this server is a standby", "reason", reason)
	}
	return follow, err
}

// succeed sets the role after this one, if there is one, and keeps the sockets open for it. cause is why this one ends.
func (v *instance) succeed(ctx context.Context, cause error) {
	c := v.Settings.Backup
	next := role{follow: true}
	switch {
	case ctx.Err() != nil, !c.Standby && c.Failover == 0, v.servers == nil, errors.Is(cause, store.ErrBroken):
		return
	case v.standby != nil && errors.Is(cause, errRoleEnds):
		next.caughtUp = v.standby.Result()
		next.follow = next.caughtUp == ""
	case errors.Is(cause, errRoleEnds):
		next.former = v.backups.Session()
		v.log.Info("releasing the destination of the backups for a standby")
	case !v.follow && backup.IsRefusal(cause):
		v.log.Warn("this server is no longer the owner, and becomes a standby", "reason", cause)
	default:
		return
	}
	var err error
	if next.sockets, err = v.servers.keep(); err != nil {
		v.log.Error("could not keep the sockets of the listeners", "error", err)
		return
	}
	v.successor = &next
}

// keepUnreleased makes a server the owner again that could not copy its last commits or release the destination. As a
// standby it would set its store aside, with what it has acknowledged since the last copy.
func (v *instance) keepUnreleased() {
	if next := v.successor; next != nil && next.former != "" && !v.backups.Released() {
		v.log.Warn("could not release the destination of the backups for a standby; going on")
		next.follow, next.former = false, ""
	}
}

// keep returns the sockets of the listeners, which stay open.
func (h *httpServers) keep() (map[string]*net.TCPListener, error) {
	public, err := h.publicListener.Duplicate()
	if err != nil {
		return nil, err
	}
	admin, err := h.adminListener.Duplicate()
	if err != nil {
		_ = public.Close()
		return nil, err
	}
	return map[string]*net.TCPListener{"public": public, "admin": admin}, nil
}

// roleEnds returns a channel that is closed when the role of the server ends by itself; nil: it does not.
func (v *instance) roleEnds() <-chan struct{} {
	switch {
	case v.standby != nil:
		return v.standby.Ended()
	case v.backups != nil:
		return v.backups.Requested()
	}
	return nil
}

// mayAccept returns why the server must not accept plants; nil: it may.
func (v *instance) mayAccept() error {
	if v.standby != nil {
		return v.standby.Status()
	}
	if owner := v.owner.Load(); owner != nil {
		if err := owner.MayAccept(); err != nil {
			return fmt.Errorf("%w: %w", store.ErrNotOwner, err)
		}
	}
	return nil
}

// standbyEngine is the engine of a standby, whose store changes only as the owner's does.
type standbyEngine struct {
	*sqlite.Engine

	log *slog.Logger
}

// MarkUsed stores nothing: the owner stores the uses that it sees.
func (e *standbyEngine) MarkUsed(context.Context, []auth.Use) error { return nil }

// AppendAudit logs the entries.
func (e *standbyEngine) AppendAudit(_ context.Context, events ...audit.Event) error {
	for _, event := range events {
		e.log.Info("the audit log of a standby lacks this event", "action", event.Action, "actor", event.Actor.Name)
	}
	return nil
}
