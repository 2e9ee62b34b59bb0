package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// With Config.Failover, the owner of a destination shows that it lives, so that a standby may take over if it does not.
//
//   - The owner stores a renewal each third of that time. It is an object of its own: if the owner stored the object
//     with its session again, a slow request could put it in the place of another server's.
//   - Without a renewal for that time the owner accepts no plants. The time begins before the request of the last
//     renewal that has succeeded.
//   - A standby takes over when it has not seen a new renewal for that time. Its time begins after a read of the last
//     one, so later than the owner's. Both measure elapsed time, so neither the clocks nor their time zones matter.
//
// The rule in owner.go does not depend on these times: with --backup-sync, an owner that was paused between two of its
// steps acknowledges nothing after another server took over. When the owner stops, its last renewal releases the
// destination. plantstore promote makes the standby store a request, after which the owner does the same.

// renewal is the content of the object by which the owner shows that it lives.
type renewal struct {
	Session  string `json:"session"`
	Number   int64  `json:"number"`             // ascends
	Released bool   `json:"released,omitempty"` // the owner has ended, and the destination has all of its commits
}

// request is the content of the object by which a standby asks the owner to release the destination.
type request struct {
	Session string `json:"session"` // the owner's
	Host    string `json:"host"`    // the standby's
}

// standbyHost is the content of the object by which a standby shows at its start that it may write.
type standbyHost struct {
	Host string `json:"host"`
}

const (
	renewalEnd = "renewal"
	requestEnd = "request"
	standbyEnd = "standby"

	renewals   = 3 // in each Failover
	renewRetry = time.Second
	releaseMax = 2 * time.Second
)

func (n series) renewalName() string { return n.segmentPrefix() + renewalEnd }
func (n series) requestName() string { return n.segmentPrefix() + requestEnd }
func (n series) standbyName() string { return n.segmentPrefix() + standbyEnd }

// ErrNotRenewed means that a server could not show for too long that it lives: a standby may have taken over.
var ErrNotRenewed = errors.New("the server could not renew its ownership of the backup directory for --failover; " +
	"another server may have taken over")

// MayAccept returns why this server must not accept plants: another one may have taken over. It returns nil without
// Config.Failover.
func (s *Service) MayAccept() error {
	if s.config.Failover == 0 {
		return nil
	}
	if err := s.Fault(); err != nil {
		return err
	}
	if at := s.renewed.Load(); at == nil || time.Since(*at) >= s.config.Failover {
		return ErrNotRenewed
	}
	return nil
}

// Requested returns a channel that is closed when a standby has asked this server to release the destination.
func (s *Service) Requested() <-chan struct{} { return s.requested }

// Session returns the session of this server.
func (s *Service) Session() string { return s.session }

// Renew stores the first renewal, if Config.Failover needs one. Start repeats it if it fails.
func (s *Service) Renew(ctx context.Context) {
	if s.config.Failover == 0 {
		return
	}
	if err := s.renewOnce(ctx, 0); err != nil {
		s.config.Log.Warn("could not show in the destination of the backups that this server lives", "error", err)
	}
}

// renew stores renewals until ctx ends, or until another server has taken over.
func (s *Service) renew(ctx context.Context) {
	var fault error
	for n := int64(1); ctx.Err() == nil && s.Fault() == nil; n++ {
		err := s.renewOnce(ctx, n)
		wait := s.config.Failover / renewals
		switch {
		case err != nil && ctx.Err() == nil:
			if fault == nil && !IsRefusal(err) {
				s.config.Log.Warn("could not renew the ownership of the destination of the backups", "error", err)
			}
			wait = min(wait, renewRetry)
		case err == nil && fault != nil:
			s.config.Log.Info("renewed the ownership of the destination of the backups again")
		}
		fault = err
		select {
		case <-ctx.Done():
		case <-s.fencing:
		case <-time.After(wait):
		}
	}
}

// renewOnce stores a renewal, and looks for a request.
func (s *Service) renewOnce(ctx context.Context, n int64) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.config.Failover)
	defer cancel()
	o, err := s.ensureOwner(ctx, false)
	if err == nil {
		err = s.checkOwner(ctx, o.ID)
	}
	if err == nil {
		err = putObject(ctx, s.to, s.names.renewalName(), renewal{Session: s.session, Number: n})
	}
	if err != nil {
		return err
	}
	s.renewed.Store(&begun)
	var r request
	switch err := readObject(ctx, s.to, s.names.requestName(), &r); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case r.Session == s.session && !s.asked && s.copier.isCurrent(): // else the standby would wait for the copy
		s.asked = true
		s.config.Log.Info("a standby asks to take over", "host", r.Host)
		close(s.requested)
	}
	return nil
}

// release tells the standbys that this server has ended, unless it has commits that the destination lacks.
func (s *Service) release() {
	if s.config.Failover == 0 || s.Fault() != nil || !s.copier.isCurrent() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseMax)
	defer cancel()
	err := putObject(ctx, s.to, s.names.renewalName(), renewal{Session: s.session, Released: true})
	s.released = err == nil
	if err != nil {
		s.config.Log.Warn("could not release the destination of the backups; a standby waits for --failover",
			"error", fmt.Errorf("store the last renewal: %w", err))
	}
}

// Released reports whether Close has released the destination for a standby.
func (s *Service) Released() bool { return s.released }

// isCurrent reports whether the last round has succeeded.
func (c *copier) isCurrent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.succeeded > 0 && c.fault == nil
}
