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

// effect is what a call that failed may have done.
type effect int

const (
	nothing effect = iota // it did nothing, and would fail again
	again                 // it did nothing, and may succeed at once if it is repeated
	unknown               // nobody can tell
)

// effectOf tells what a statement outside of any transaction, or a COMMIT, that
// was sent and failed may have done. Only an error of the server that is no end
// of the connection says that it was undone
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func effectOf(err error) effect {
	var said *pgconn.PgError
	switch {
	case pgconn.SafeToRetry(err):
		return again // it was never sent
	case !errors.As(err, &said), said.SeverityUnlocalized != "ERROR", strings.HasPrefix(said.Code, "08"), said.Code == "40003":
		return unknown
	case slices.Contains([]string{"40001", "40P01", "25006"}, said.Code): // serialization, deadlock, a standby
		return again
	}
	return nothing
}

// classify gives an error of a call that did nothing the meaning that it has
// for the store.
func classify(err error) error {
	if err == nil {
		return nil
	}
	err = driverError{err}
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == "53100":
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case said != nil && said.Code == readOnlyCode:
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the database has not answered in time: %w", err)
	}
	return err
}

// driverError prints an error in one line, and each of its causes once. The driver
// writes a line for each host and for each way to connect to it.
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
