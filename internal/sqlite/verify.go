package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Verification is what Verify found.
type Verification struct {
	Plants  int64  // read
	Tokens  int64  // read
	Commits int64  // the number of the last one
	Store   string // which store it is

	Manifest bool // the file is a backup and was compared with its manifest

	Faults []string // what is wrong, for a person; none if nothing is
	More   int      // faults beyond these
}

const faultsMax = 20

func (v *Verification) fault(format string, args ...any) {
	if len(v.Faults) == faultsMax {
		v.More++
		return
	}
	v.Faults = append(v.Faults, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
}

// Verify reads the whole store at path and holds it against all that can tell
// damage: SQLite's rules for the file (https://sqlite.org/pragma.html#pragma_integrity_check),
// the schema, the digest of each row, their number and sum, and the mark of the
// last commit. The store may be served, stopped, or be a backup; nothing in it
// is changed. It sees the store as it was when it began; a server's WAL grows
// until it is done. From time to time it calls progress with how many plants it
// has read since it called last.
//
// The error is about what keeps it from looking: no such file, no plant store,
// the end of ctx.
func Verify(ctx context.Context, path string, progress func(plants int64)) (Verification, error) {
	var v Verification
	path = realPath(path)
	c, err := openToLook(path)
	if err != nil {
		return v, err
	}
	err = during(ctx, c, func() error { return v.look(ctx, c, path, true, progress) })
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return v, errors.Join(err, c.Close())
}

// openToLook opens a store to be read. As the only connection to it, one that
// may write takes an empty WAL away again, and one that may not leaves a WAL
// that is not empty to whom it belongs.
func openToLook(path string) (*sqlite3.Conn, error) {
	if err := cmp.Or(checkNamed(path), checkBeside(path, besideSuffixes)); err != nil {
		return nil, err
	}
	open := sqlite3.Open
	if hasWAL(path) {
		open = sqlite3.OpenReadOnly
	}
	c, err := open(path)
	if err != nil {
		return nil, openFault(path, err)
	}
	if err := prepareToLook(c); err != nil {
		return nil, errors.Join(openFault(path, err), c.Close())
	}
	return c, nil
}

func prepareToLook(c *sqlite3.Conn) error {
	c.BusyTimeout(busyMilliseconds)
	return c.Exec("PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA ignore_check_constraints = ON")
}

// hasWAL reports whether a WAL that is not empty lies beside a store.
func hasWAL(path string) bool {
	wal, err := os.Stat(path + "-wal")
	return err == nil && wal.Size() > 0
}

// look looks at everything that a connection sees; at the mark beside the file only if the file is a store.
func (v *Verification) look(ctx context.Context, c *sqlite3.Conn, path string, isStore bool, progress func(int64)) error {
	version, err := schemaVersion(c, path)
	if err == nil && version == 0 {
		err = noStore(path)
	}
	if err != nil {
		return err
	}
	faults, err := schemaFaults(c, version)
	if err != nil {
		if ctx.Err() == nil {
			v.fault("could not read the whole schema: %v", err)
		}
		return ctx.Err()
	}
	for _, fault := range faults {
		v.fault("schema %d: %s", version, fault)
	}
	if len(faults) > 0 {
		return nil // to read the rest may run what is in it
	}
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	defer func() { _ = c.Exec("ROLLBACK") }() // nothing was written
	s, err := v.lookAtState(c, path, isStore)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(*sqlite3.Conn, *state) error
	}{
		{"the file", v.lookAtFile},
		{"the tokens", func(c *sqlite3.Conn, s *state) error { return v.lookAtTokens(c, s, version) }},
		{"the plants", func(c *sqlite3.Conn, s *state) error { return v.lookAtPlants(c, s, progress) }},
	} {
		if err := step.do(c, s); err != nil {
			if ctx.Err() != nil {
				return err
			}
			v.fault("could not read all of %s: %v", step.name, err)
			if errors.Is(err, errShared) {
				return nil
			}
		}
	}
	return nil
}

// lookAtState compares the state of a store with the mark. It returns nil if
// there is no state to compare the rest with. The error is that the mark belongs
// to another user, which is no damage.
func (v *Verification) lookAtState(c *sqlite3.Conn, path string, isStore bool) (*state, error) {
	var s state
	var wrong, err error
	if isStore {
		s, wrong, err = checkMark(c, path)
	} else {
		s, err = readState(c)
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	if err != nil {
		v.fault("could not read the state of the store: %v", err)
		return nil, nil
	}
	v.Commits, v.Store = s.commits, storeName(s.store)
	if wrong != nil {
		v.fault("%v", wrong)
	}
	return &s, nil
}

// lookAtFile has SQLite check how the file is built. It reports the pages of all
// tables before it reads their rows.
func (v *Verification) lookAtFile(c *sqlite3.Conn, _ *state) error {
	s, err := c.Prepare(fmt.Sprintf("PRAGMA integrity_check(%d)", faultsMax))
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		ok, err := s.Step()
		if err != nil || !ok {
			return err
		}
		fault := s.Text(0)
		if fault != "ok" {
			v.fault("the file is damaged: %s", fault)
		}
		if strings.Contains(fault, "2nd reference to page") {
			return errShared
		}
	}
}

// errShared means that a scan of a table may meet the same rows again and again.
var errShared = errors.New("a page is used more than once; the rest was not read")

// texts returns the first column of all rows.
func texts(c *sqlite3.Conn, sql string) (all []string, err error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for {
		ok, err := s.Step()
		if err != nil || !ok {
			return all, err
		}
		all = append(all, s.Text(0))
	}
}

func (v *Verification) lookAtTokens(c *sqlite3.Conn, s *state, version int) error {
	sum, n, err := tokenDigests(c, version)
	v.Tokens = n
	if err != nil {
		return err
	}
	if s != nil && sum != s.tokenDigests {
		v.fault("a token was changed, removed or added by another program")
	}
	scopes, err := texts(c, "SELECT scopes FROM tokens")
	for _, text := range scopes {
		if _, err := auth.ParseScopes(text); err != nil {
			v.fault("a token: %v", err)
		}
	}
	return err
}

func (v *Verification) lookAtPlants(c *sqlite3.Conn, s *state, progress func(int64)) error {
	const progressEvery = 100_000
	rows, err := c.Prepare("SELECT id, name, tag, created_at, created_by, digest FROM plants")
	if err != nil {
		return err
	}
	defer rows.Close()
	var d store.Digester
	sum := int64(0)
	for {
		ok, err := rows.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		r := storedRow(rows)
		if d.Plant(&r.NewPlant, r.CreatedAt, r.CreatedBy) != rows.Int64(5) {
			v.fault("plant %d does not match its digest", r.ID)
		}
		sum += rows.Int64(5)
		if v.Plants++; v.Plants%progressEvery == 0 && progress != nil {
			progress(progressEvery)
		}
	}
	switch {
	case s == nil:
	case v.Plants != s.plants:
		v.fault("the store has %d plants; %d were stored", v.Plants, s.plants)
	case sum != s.digests:
		v.fault("a plant is missing and another one was added")
	}
	return nil
}
