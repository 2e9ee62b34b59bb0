package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"plantstore/internal/store"
)

// SQLSTATEs that the engine handles (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	codeReadOnlyTransaction   = "25006" // as on a standby
	codeUniqueViolation       = "23505"
	codeSerializationFailure  = "40001"
	codeCompletionUnknown     = "40003"
	codeDeadlock              = "40P01"
	codeNoStatement           = "26000" // not in this session, as behind a pooler
	codeInsufficientPrivilege = "42501"
	codeDuplicateStatement    = "42P05"
	codeNoConflictTarget      = "42P10" // ON CONFLICT names columns without a unique index
	codeDiskFull              = "53100"
	codeLockNotAvailable      = "55P03"
	codeInternal              = "XX000" // Citus replaces the code of an error of a worker by it
	classConnectionException  = "08"
)

// hasCode reports whether an error is the server's with that SQLSTATE.
func hasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}

// effect is the possible effect of a call that failed.
type effect int

const (
	noEffect      effect = iota // it changed nothing, and would fail again
	retryable                   // it changed nothing, and may succeed if it is repeated
	unknownEffect               // it may have changed the database
)

// effectOf returns the possible effect of a statement outside of a transaction, or of a COMMIT. The server has undone
// it only if it answered with an error and keeps the connection open.
func effectOf(err error) effect {
	var pgErr *pgconn.PgError
	switch {
	case pgconn.SafeToRetry(err): // it was never sent
		return retryable
	case errors.Is(err, errWorker), !errors.As(err, &pgErr), pgErr.SeverityUnlocalized != "ERROR",
		strings.HasPrefix(pgErr.Code, classConnectionException), pgErr.Code == codeCompletionUnknown:
		return unknownEffect
	case slices.Contains([]string{codeSerializationFailure, codeDeadlock, codeReadOnlyTransaction}, pgErr.Code):
		return retryable
	}
	return noEffect
}

// classify wraps the error of a call that changed nothing in the error of package store for its cause.
func classify(err error) error {
	if err == nil {
		return nil
	}
	err = driverError{err}
	switch {
	case hasCode(err, codeDiskFull):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the database has not answered in time: %w", err)
	}
	return err
}

// driverError formats an error of the driver in one line, and each of its causes once. The driver writes a line for
// each host and each way to connect to it.
type driverError struct{ error }

func (e driverError) Error() string {
	var causes []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(causes, line) {
			causes = append(causes, line)
		}
	}
	return strings.ReplaceAll(strings.Join(causes, "; "), ":; ", ": ")
}

func (e driverError) Unwrap() error { return e.error }
