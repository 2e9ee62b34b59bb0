package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
)

// Manifest says what a backup holds. It lies beside the backup, with
// ManifestSuffix behind its name.
type Manifest struct {
	Format  int       `json:"format"`           // manifestFormat
	MadeAt  time.Time `json:"made_at,omitzero"` // when what the backup holds was read
	Store   string    `json:"store"`            // which store it is of, in hexadecimal digits
	Commits int64     `json:"commits"`          // the number of the last commit in it
	Plants  int64     `json:"plants"`
	Bytes   int64     `json:"bytes"`  // of the file
	SHA256  string    `json:"sha256"` // of the file, in hexadecimal digits
}

// ManifestSuffix is what the name of a manifest has behind that of its backup.
const ManifestSuffix = ".json"

const manifestFormat = 1

// errNoManifest means that no manifest lies beside a file.
var errNoManifest = errors.New("the manifest is missing, so nothing shows whether the backup is complete")

// readManifest reads the manifest of a backup.
func readManifest(backup string) (Manifest, error) { return ReadManifest(backup + ManifestSuffix) }

// ReadManifest reads the manifest at path.
func ReadManifest(path string) (m Manifest, err error) {
	const bytesMax = 1 << 20
	text, err := readSmall(path, bytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w", path, errNoManifest)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s is not the manifest of a backup: %w", path, err)
	}
	if m.Format != manifestFormat {
		return m, fmt.Errorf("%s has format %d, and this plantstore supports only format %d: use the plantstore that made the backup", path, m.Format, manifestFormat)
	}
	return m, nil
}

// BackupManifest returns the manifest of the backup at path. The error says so if path is not a regular file, if the
// manifest is missing or is none, or if the file does not have the size that the manifest says.
func BackupManifest(path string) (Manifest, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Manifest{}, err
	}
	if err := safefile.CheckRegular(path); err != nil {
		return Manifest{}, err
	}
	m, err := readManifest(path)
	if err == nil && m.Bytes != info.Size() {
		err = errors.New(m.sizeFault(info.Size()))
	}
	return m, err
}

// publish puts a manifest, and then the file that it is about, under their
// names.
func (m *Manifest) publish(temp *safefile.File, to string) error {
	if err := m.Write(to + ManifestSuffix); err != nil {
		return err
	}
	if err := temp.Publish(false); err != nil {
		return errors.Join(err, os.Remove(to+ManifestSuffix))
	}
	return nil
}

// Write writes the manifest to a new file, which appears when it is on stable
// storage. The error wraps fs.ErrExist if something is at path.
func (m *Manifest) Write(path string) (err error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := safefile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Discard()) }()
	if _, err := f.Write(append(text, '\n')); err != nil {
		return err
	}
	return f.Publish(false)
}

func (m *Manifest) sizeFault(bytes int64) string {
	return fmt.Sprintf("it has %d bytes; its manifest has %d", bytes, m.Bytes)
}

// verify reads the whole backup at path, of which this is the manifest, and compares the two. Nothing beside the file
// counts, and nothing is changed. See Verify for progress and the error.
func (m *Manifest) verify(ctx context.Context, path string, progress func(plants int64)) (Verification, error) {
	v := Verification{Manifest: true}
	size, sum, err := sumFile(ctx, path)
	switch {
	case err != nil:
		return v, err
	case size != m.Bytes:
		v.fault("%s", m.sizeFault(size))
	case sum != m.SHA256:
		v.fault("its SHA-256 is %s; its manifest has %s", sum, m.SHA256)
	}
	whole := len(v.Faults) == 0
	err = v.lookImmutable(ctx, path, false, progress)
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case err != nil && !whole:
		v.fault("%v", err)
	case err != nil:
		return v, err
	case v.Store != "" && (v.Plants != m.Plants || v.Commits != m.Commits || v.Store != m.Store): // empty: it was not read
		v.fault("it has %d plants up to commit %d of store %s; its manifest has %d up to commit %d of store %s",
			v.Plants, v.Commits, v.Store, m.Plants, m.Commits, m.Store)
	}
	return v, nil
}

// VerifyFile reads a file that the user names, as Verify does. A file that has a manifest beside it is a backup: it is
// compared with the manifest, and nothing else beside it counts. Neither does it, but for the mark, for a file that is
// not in WAL mode, as a backup without its manifest.
func VerifyFile(ctx context.Context, path string, progress func(plants int64)) (v Verification, err error) {
	path = realPath(path)
	if err := checkNamed(path); err != nil {
		return v, err
	}
	m, err := readManifest(path)
	switch {
	case err == nil:
		return m.verify(ctx, path, progress)
	case !errors.Is(err, errNoManifest):
		return v, err
	}
	switch inWAL, err := usesWAL(path); {
	case err != nil:
		return v, err
	case inWAL:
		return Verify(ctx, path, progress)
	}
	err = v.lookImmutable(ctx, path, true, progress)
	return v, cmp.Or(ctx.Err(), err)
}

// usesWAL reports whether a database file is in WAL mode, by its header
// (https://sqlite.org/fileformat2.html#file_format_version_numbers). A store that was opened once is; what Backup makes
// is not.
func usesWAL(path string) (bool, error) {
	const readVersion = 19
	f, err := safefile.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var version [1]byte
	if _, err := f.ReadAt(version[:], readVersion); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return version[0] == 2, nil
}

// lookImmutable looks at a file that nothing changes, and at nothing beside it but the mark of a store.
func (v *Verification) lookImmutable(ctx context.Context, path string, isStore bool, progress func(int64)) error {
	before, err := os.Stat(path)
	if err != nil {
		return err
	}
	c, err := sqlite3.OpenImmutable(path)
	if err != nil {
		return openFault(path, err)
	}
	if err = prepareToLook(c); err == nil {
		err = during(ctx, c, func() error { return v.look(ctx, c, path, isStore, progress) })
	}
	after, errAfter := os.Stat(path)
	if errAfter == nil && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime())) {
		errAfter = fmt.Errorf("%s was changed while it was read: try again", path)
	}
	return errors.Join(errAfter, err, c.Close())
}
