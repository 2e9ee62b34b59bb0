package backupfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"plantstore/internal/audit"
	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Verification is the result of Verify.
type Verification struct {
	Plants  int64  // read
	Tokens  int64  // read
	Commits int64  // number of the last commit
	Store   string // identity of the store

	Manifest bool // the file is a backup and was compared with its manifest

	Faults []string // descriptions of the damage, at most 20
	More   int      // number of further faults
}

const faultsMax = 20

func (v *Verification) fault(format string, args ...any) {
	if len(v.Faults) == faultsMax {
		v.More++
		return
	}
	v.Faults = append(v.Faults, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
}

// DamageError is the error for a store or a backup that could be read and is damaged.
type DamageError string

func (e DamageError) Error() string { return string(e) }

// damage returns the first fault as a DamageError, nil without one. what names the file that was read.
func (v *Verification) damage(what string) error {
	if len(v.Faults) == 0 {
		return nil
	}
	return DamageError(what + " is damaged: " + v.Faults[0])
}

// Verify reads the whole store at path and detects damage: it runs SQLite's integrity check
// (https://sqlite.org/pragma.html#pragma_integrity_check) and compares the schema, the digest of each row, their number
// and sum, and the commit mark. The store may be served or stopped, or be a backup; Verify changes nothing. It reads
// one snapshot; the WAL of a server grows until the end. progress receives the number of plants.
//
// The error tells why the store could not be read: no such file, no plant store, the end of ctx.
func Verify(ctx context.Context, path string, progress Progress) (Verification, error) {
	var v Verification
	path = dbfile.RealPath(path)
	err := dbfile.Read(ctx, path, func(c *sqlite3.Conn) error { return v.check(ctx, c, path, true, progress) })
	return v, err
}

// VerifyFile is Verify for a path that the user entered. A file with a manifest is a backup: VerifyFile compares the
// two and reads no other file. A file that is not in WAL mode is a backup without its manifest: VerifyFile reads the
// file and the commit mark.
func VerifyFile(ctx context.Context, path string, progress Progress) (v Verification, err error) {
	path = dbfile.RealPath(path)
	if err := dbfile.CheckNamed(path); err != nil {
		return v, err
	}
	m, err := ReadManifest(path + ManifestSuffix)
	switch {
	case err == nil:
		return m.verify(ctx, path, progress)
	case !errors.Is(err, ErrNoManifest):
		return v, err
	}
	switch backup, err := IsBackup(path); {
	case err != nil:
		return v, err
	case !backup:
		return Verify(ctx, path, progress)
	}
	err = v.checkImmutable(ctx, path, true, progress)
	return v, cmp.Or(ctx.Err(), err)
}

// verify compares the whole backup at path with its manifest. It reads no other file and changes nothing. See Verify
// for progress and the error.
func (m *Manifest) verify(ctx context.Context, path string, progress Progress) (Verification, error) {
	v := Verification{Manifest: true}
	size, sum, err := sumFile(ctx, path)
	if err != nil {
		return v, err
	}
	if err := m.CheckContent(size, sum); err != nil {
		v.fault("%v", err)
	}
	whole := len(v.Faults) == 0
	err = v.checkImmutable(ctx, path, false, progress)
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case err != nil && !whole:
		v.fault("%v", err)
	case err != nil:
		return v, err
	case v.Store != "" && // else the state was not read
		(v.Plants != m.Plants || v.Commits != m.Commits || v.Store != m.Store):
		v.fault("it has %d plants up to commit %d of store %s; its manifest has %d up to commit %d of store %s",
			v.Plants, v.Commits, v.Store, m.Plants, m.Commits, m.Store)
	}
	return v, nil
}

// IsBackup reports whether the file at path is a backup, or a restored store that nobody has opened yet: its header
// says that it is not in WAL mode (https://sqlite.org/fileformat2.html#file_format_version_numbers).
func IsBackup(path string) (bool, error) {
	const readVersion = 19
	f, err := safefile.OpenRegular(dbfile.RealPath(path), os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var version [1]byte
	if _, err := f.ReadAt(version[:], readVersion); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return version[0] != 2, nil
}

// checkImmutable checks a file without its WAL. If the file is a store, it also reads the commit mark.
func (v *Verification) checkImmutable(
	ctx context.Context, path string, isStore bool, progress Progress,
) error {
	before, err := os.Stat(path)
	if err != nil {
		return err
	}
	c, err := dbfile.OpenImmutable(path)
	if err != nil {
		return err
	}
	err = c.During(ctx, func() error { return v.check(ctx, c, path, isStore, progress) })
	after, errAfter := os.Stat(path) // a server may have opened a restored store since
	if errAfter == nil && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime())) {
		errAfter = fmt.Errorf("%s was changed while it was read: try again", path)
	}
	return errors.Join(errAfter, err, c.Close())
}

// check checks the snapshot of a connection, and the commit mark if the file is a store.
func (v *Verification) check(
	ctx context.Context, c *sqlite3.Conn, path string, isStore bool, progress Progress,
) error {
	version, err := dbfile.SchemaVersion(c, path)
	if err == nil && version == 0 {
		err = dbfile.NoStore(path)
	}
	if err != nil {
		return err
	}
	faults, err := dbfile.SchemaFaults(c, version)
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
		return nil // reading the rest could run code of the file
	}
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	defer func() { _ = c.Exec("ROLLBACK") }() // nothing was written
	s, err := v.checkState(c, path, isStore)
	if err != nil {
		return err
	}
	if s != nil {
		progress.report(0, s.Plants)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"the file", func() error { return v.checkFile(c) }},
		{"the tokens", func() error { return v.checkTokens(c, s) }},
		{"the audit log", func() error { return v.checkAudit(c, s) }},
		{"the plants", func() error { return v.checkPlants(c, s, progress) }},
	} {
		if err := step.do(); err != nil {
			if ctx.Err() != nil {
				return err
			}
			v.fault("could not read all of %s: %v", step.name, err)
			if errors.Is(err, errPageShared) {
				return nil
			}
		}
	}
	return nil
}

// checkState compares the state of a store with the commit mark. It returns a nil state if it cannot read it. Its only
// error is that this user may not read the mark, which is not damage.
func (v *Verification) checkState(c *sqlite3.Conn, path string, isStore bool) (*dbfile.State, error) {
	var s dbfile.State
	var fault, err error
	if isStore {
		s, fault, err = dbfile.CheckMark(c, path)
	} else {
		s, err = dbfile.ReadState(c)
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	if err != nil {
		v.fault("could not read the state of the store: %v", err)
		return nil, nil
	}
	v.Commits, v.Store = s.Commits, s.StoreName()
	if fault != nil {
		v.fault("%v", fault)
	}
	return &s, nil
}

// checkFile runs SQLite's integrity check, which checks the pages of all tables before their rows.
func (v *Verification) checkFile(c *sqlite3.Conn) error {
	if err := dbfile.CheckHeader(c); err != nil {
		v.fault("the file is damaged: %v", err)
	}
	for s, err := range c.Rows(fmt.Sprintf("PRAGMA integrity_check(%d)", faultsMax)) {
		if err != nil {
			return err
		}
		fault := s.Text(0)
		if fault != "ok" {
			v.fault("the file is damaged: %s", fault)
		}
		if strings.Contains(fault, "2nd reference to page") {
			return errPageShared
		}
	}
	return nil
}

// errPageShared means that the scan of a table may never end.
var errPageShared = errors.New("a page is used more than once; the rest was not read")

func (v *Verification) checkTokens(c *sqlite3.Conn, s *dbfile.State) error {
	sum, n, err := dbfile.TokenDigests(c, "TRUE")
	v.Tokens = n
	if err != nil {
		return err
	}
	if s != nil && sum != s.TokenDigests {
		v.fault("a token was changed, removed or added by another program")
	}
	return nil
}

// checkAudit checks the chain of the audit log.
func (v *Verification) checkAudit(c *sqlite3.Conn, s *dbfile.State) error {
	if s == nil {
		return nil
	}
	t := dbfile.Tables(c)
	ends, err := t.AuditEnds()
	if err != nil {
		return err
	}
	err = audit.Verify(ends, audit.Rows(math.MinInt64, t.AuditRows))
	var fault *audit.Fault
	if errors.As(err, &fault) {
		v.fault("the audit log: %v", fault)
		return nil
	}
	return err
}

func (v *Verification) checkPlants(c *sqlite3.Conn, s *dbfile.State, progress Progress) error {
	const progressEvery = 100_000
	var d store.Digester
	sum := int64(0)
	var p store.Scanned
	for row, err := range c.Rows("SELECT " + dbfile.PlantColumns + " FROM plants") {
		if err != nil {
			return err
		}
		if dbfile.ScanPlant(&d, row, &p); p.Damaged {
			v.fault("plant %d does not match its digest", p.ID)
		}
		sum += row.Int64(5)
		if v.Plants++; v.Plants%progressEvery == 0 && s != nil {
			progress.report(v.Plants, s.Plants)
		}
	}
	switch {
	case s == nil:
	case v.Plants != s.Plants:
		v.fault("the store has %d plants; %d were stored", v.Plants, s.Plants)
	case sum != s.Digests:
		v.fault("a plant is missing and another one was added")
	}
	return nil
}
