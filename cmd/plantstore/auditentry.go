package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/config"
	"plantstore/internal/serve"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/terminal"
)

// commandAuditMax limits the time for the audit entry of a command, even after an interruption.
const commandAuditMax = 5 * time.Second

// operator returns the origin of a command's entries in the audit log: the user who runs it. SUDO_USER is a claim of
// the environment, because sudo is not the only program that can set it.
func (p *program) operator() audit.Origin {
	actor := audit.Actor{Kind: audit.User, ID: strconv.Itoa(os.Getuid()), SudoUser: p.env.Vars["SUDO_USER"]}
	if u, err := user.LookupId(actor.ID); err == nil {
		actor.Name = u.Username
	}
	return audit.Origin{Actor: actor}
}

// audit appends an entry about a command that is complete. Its failure is a warning, because the work of the command is
// done.
func (p *program) audit(ctx context.Context, engine serve.Engine, action audit.Action, details ...audit.Detail) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandAuditMax)
	defer cancel()
	event := audit.Event{Time: time.Now(), Action: action, Origin: p.operator(), Details: details}
	p.warnUnaudited(engine.AppendAudit(ctx, event))
}

// auditReading is audit for a command that only reads the store: it opens the store for the entry. An entry is not
// possible in a store that is not writable, nor in a backup, which must stay equal to its manifest.
func (p *program) auditReading(ctx context.Context, action audit.Action, details ...audit.Detail) {
	if db := p.settings.DB; !db.IsDatabase() {
		backup, err := backupfile.IsBackup(db.Path)
		if err == nil && backup {
			err = fmt.Errorf("%s is a backup, which stays as it is", db)
		}
		if err != nil {
			p.warnUnaudited(err)
			return
		}
	}
	p.auditClosed(ctx, action, details...)
}

// auditClosed is audit for a store that is not open. A store of an older schema accepts no entry.
func (p *program) auditClosed(ctx context.Context, action audit.Action, details ...audit.Detail) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandAuditMax)
	defer cancel()
	engine, err := p.openCommand(ctx, &p.settings, existing)
	if err != nil {
		p.warnUnaudited(err)
		return
	}
	p.audit(ctx, engine, action, details...)
	if err := engine.Close(); err != nil {
		fmt.Fprintln(p.Stderr, "warning:", terminal.Printable(err.Error()))
	}
}

func (p *program) warnUnaudited(err error) {
	if err != nil {
		message := p.env.Hide(err.Error())
		fmt.Fprintln(p.Stderr, "warning: the audit log has no entry of this command:", terminal.Printable(message))
	}
}

// fileDetail returns the detail of a file or an object that a user has named; - is a stream.
func fileDetail(path string) audit.Detail {
	if path != terminal.StreamName && !backup.IsBucket(path) {
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
	}
	return audit.Detail{Key: "file", Value: config.HideSecrets(path, nil)}
}

func countDetail(key string, n int64) audit.Detail {
	return audit.Detail{Key: key, Value: fmt.Sprint(n)}
}

// resultDetail returns the detail of the end of a command.
func resultDetail(err error) audit.Detail {
	result := "complete"
	switch {
	case errors.Is(err, terminal.ErrInterrupted), errors.Is(err, context.Canceled):
		result = "interrupted"
	case err != nil:
		result = "failed"
	}
	return audit.Detail{Key: "result", Value: result}
}
