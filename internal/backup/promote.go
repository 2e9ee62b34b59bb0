package backup

import (
	"context"
	"errors"
	"time"

	"plantstore/internal/sqlite/dbfile"
)

// Promote asks the standby that serves the store at db to take over, and returns when it is the owner. It calls delayed
// with the reason while the standby cannot do so. The request ends with ctx.
func Promote(ctx context.Context, db string, delayed func(reason string)) error {
	path := dbfile.RealPath(db)
	begun := time.Now()
	f, err := dbfile.RequestPromotion(path)
	for err != nil {
		if _, missing := errors.AsType[dbfile.NoStandbyError](err); !missing || time.Since(begun) >= reopenMax {
			return err
		}
		if err := dbfile.Pause(ctx, promotePoll); err != nil {
			return err
		}
		f, err = dbfile.RequestPromotion(path)
	}
	defer f.Close()
	last := ""
	var told time.Time
	for idle := time.Now(); ; {
		o, err := dbfile.ReadOrigin(path)
		if err != nil || o.Holder {
			return err
		}
		if dbfile.Served(path) {
			idle = time.Now()
		} else if time.Since(idle) > roleChangeMax {
			return errors.New("the server has ended, or cannot open its store; see its log")
		}
		if reason := dbfile.PromotionDelay(f); reason != "" && reason != last && time.Since(told) >= delayedEvery {
			delayed(reason)
			last, told = reason, time.Now()
		}
		if err := dbfile.Pause(ctx, promotePoll); err != nil {
			return err
		}
	}
}

// wantsPromotion reports whether the operator has asked this server to take over, and then asks the owner to release
// the destination. The error is why it could not ask.
func (s *Standby) wantsPromotion(ctx context.Context) (promote bool, err error) {
	if !dbfile.PromotionRequested(s.path) {
		return false, nil
	}
	if s.asked != s.owner.Session {
		err = putObject(ctx, s.service.to, s.service.names.requestName(), request{s.owner.Session, s.service.host})
		if err == nil {
			s.asked, s.askedAt = s.owner.Session, time.Now()
		} else if !s.unasked {
			s.config.Log.Warn("could not ask the owner to release the destination; trying again", "error", err)
		}
		s.unasked = err != nil
	}
	return true, err
}
