package serve

import (
	"context"
	"errors"

	"plantstore/internal/acme"
	"plantstore/internal/backup"
	"plantstore/internal/oidc"
	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
)

// Check opens and checks what Run would, and changes nothing. It returns all faults with which Run would end, and logs
// what Run would log about the rest. It needs neither Greet nor Hangups.
func Check(ctx context.Context, c Config) error {
	v := &instance{Config: c, log: c.Log.Logger, metrics: newMetrics(c.Version), checking: true}
	faults := []error{v.check(ctx), v.checkStore(ctx)} // which finds a server that may have the addresses of the listeners
	faults = append(faults, v.openListeners(ctx), v.close())
	v.checkOthers(ctx)
	return errors.Join(faults...)
}

// checkStore checks the store and then its backups.
func (v *instance) checkStore(ctx context.Context) (err error) {
	s := v.Settings
	switch {
	case s.DB.IsZero() || s.CheckStore() != nil:
		return nil //nolint:nilerr // check has reported the fault of the settings
	case s.DB.IsDatabase():
		v.served = true // nothing shows which servers run
		return postgres.Check(ctx, postgres.Config{
			URL: string(s.DB.URL), RequireSyncStandby: s.RequireSyncStandby, Log: v.log,
		})
	}
	v.served, err = sqlite.Check(ctx, sqlite.Config{Path: s.DB.Path, Log: v.log})
	if err != nil || s.CheckDestination(ctx, v.Env) != nil {
		return err
	}
	if follow, err := v.mustFollow(ctx); err != nil || follow {
		return err
	}
	return v.openMissing(ctx)
}

// checkOwner returns an error if the server may not add to the destination of the backups.
func (v *instance) checkOwner(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, claimMax)
	defer cancel()
	if err := backup.Check(ctx, v.backupConfig()); err != nil {
		return v.refused(err)
	}
	return nil
}

// checkOthers warns of an issuer and of a CA that do not respond: the server starts without them.
func (v *instance) checkOthers(ctx context.Context) {
	if c := v.Settings.OIDC; c.Issuer != "" {
		if err := oidc.Check(ctx, c); err != nil {
			v.log.Warn("could not fetch the keys of the issuer", "issuer", c.Issuer, "error", err)
		}
	}
	if c := v.Settings.ACME; v.Settings.HasACME() {
		if err := acme.Check(ctx, c); err != nil {
			v.log.Warn("the CA does not respond", "directory", c.Directory, "error", err)
		}
	}
}
