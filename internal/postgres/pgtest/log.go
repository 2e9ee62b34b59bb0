package pgtest

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Logging are the settings of a server that logs every statement without its values, including statements that are only
// prepared.
var Logging = []string{
	"logging_collector=on", "log_destination=csvlog", "log_rotation_size=0",
	"log_statement=all", "log_min_duration_statement=0", "log_parameter_max_length=0",
}

// Statement is a statement that a client sent.
type Statement struct{ Database, Application, SQL string }

// Statements returns the statements that clients of a server with Logging sent before the call. It may return a
// statement several times.
func (s *Server) Statements(ctx context.Context) ([]Statement, error) {
	// Another process of the server writes the log. When the last statement is in the log, so are all earlier ones.
	last := fmt.Sprintf("SELECT 'the log until %s'", time.Now().Format(time.RFC3339Nano))
	c, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return nil, err
	}
	_, err = c.Exec(ctx, last)
	if err := errors.Join(err, c.Close(ctx)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := s.logged()
		for _, statement := range all {
			if statement.SQL == last {
				return all, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// sent matches the message of a statement (https://www.postgresql.org/docs/current/runtime-config-logging.html).
var sent = regexp.MustCompile(`(?s)^(?:duration: \S+ ms  )?(?:statement|parse \S+|bind \S+|execute \S+): (.*)$`)

// logged reads the log. An incomplete last entry is an error.
func (s *Server) logged() (all []Statement, err error) {
	const user, database, message, query, application = 1, 2, 13, 19, 22
	names, err := filepath.Glob(filepath.Join(s.dir, "data", "log", "*.csv"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			statement := Statement{Database: row[database], Application: row[application], SQL: row[query]}
			if found := sent.FindStringSubmatch(row[message]); found != nil {
				statement.SQL = found[1]
			}
			if statement.SQL != "" && row[user] != "" {
				all = append(all, statement)
			}
		}
	}
	return all, nil
}
