package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"plantstore/internal/safefile"
)

// BackupTo writes a backup of the store at path, which may be served, to w, with the same
// bytes as Backup. It returns the manifest.
//
// BackupTo first copies the store into a temporary file in tempDir, because the WAL grows
// until the end of the copy, and w may be slow. Only the owner can read the file, and its name
// is removed before the first byte is written.
func BackupTo(
	ctx context.Context, path string, w io.Writer, tempDir string, progress Progress,
) (m Manifest, err error) {
	f, m, err := Snapshot(ctx, path, tempDir, progress)
	if err != nil {
		return m, err
	}
	defer f.Close()
	sum := sha256.New()
	m.Bytes, err = io.Copy(io.MultiWriter(w, sum), contextReader{ctx, f})
	m.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return m, err
}

// Snapshot copies the store at path, which may be served, into a temporary file in tempDir, and opens it for reading.
// Only the owner can read the file, and it has no name, so Close removes it. The manifest has its size and no SHA-256.
func Snapshot(ctx context.Context, path, tempDir string, progress Progress) (*os.File, Manifest, error) {
	temp, m, err := snapshot(ctx, path, filepath.Join(tempDir, filepath.Base(path)), progress)
	if err != nil {
		return nil, m, err
	}
	f, err := os.Open(temp.Name())
	if err := errors.Join(err, temp.Discard()); err != nil {
		return nil, m, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, m, errors.Join(err, f.Close())
	}
	m.Bytes = info.Size()
	return f, m, nil
}

// RestoreFrom is Restore for a backup that r returns, with manifest m. Without a manifest, the
// backup must have the size in its header and must be undamaged, as Verify checks it; then the
// returned manifest has no time.
func RestoreFrom(
	ctx context.Context, r io.Reader, m *Manifest, path string, replace bool, progress Progress,
) (Manifest, error) {
	in := contextReader{ctx, r}
	receive := (*Manifest).receive
	if m == nil {
		m, receive = &Manifest{Format: manifestFormat}, (*Manifest).receiveWithoutManifest
	}
	err := restore(ctx, path, replace, func(temp *safefile.File) error { return receive(m, ctx, in, temp, progress) })
	return *m, err
}

// receive writes a backup into a file and compares it with its manifest m.
func (m *Manifest) receive(ctx context.Context, r io.Reader, temp *safefile.File, progress Progress) error {
	if err := receiveBytes(r, temp, m.Bytes, progress); err != nil {
		return err
	}
	v, err := m.verify(ctx, temp.Name(), nil)
	if err == nil && len(v.Faults) > 0 {
		err = damaged(v)
	}
	return err
}

// receiveWithoutManifest writes a backup into a file, checks it and sets m.
func (m *Manifest) receiveWithoutManifest(
	ctx context.Context, r io.Reader, temp *safefile.File, progress Progress,
) (err error) {
	head := make([]byte, headerBytes)
	n, err := io.ReadFull(r, head)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the backup is empty")
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	if m.Bytes, err = backupBytes(head[:n]); err != nil {
		return err
	}
	if err := receiveBytes(io.MultiReader(strings.NewReader(string(head)), r), temp, m.Bytes, progress); err != nil {
		return err
	}
	var v Verification
	if err := v.checkImmutable(ctx, temp.Name(), false, nil); err != nil {
		return err
	}
	if len(v.Faults) > 0 {
		return damaged(v)
	}
	m.Store, m.Commits, m.Plants = v.Store, v.Commits, v.Plants
	_, m.SHA256, err = sumFile(ctx, temp.Name())
	return err
}

func damaged(v Verification) error { return fmt.Errorf("the backup is damaged: %s", v.Faults[0]) }

// receiveBytes copies r, which must have exactly size bytes.
func receiveBytes(r io.Reader, temp *safefile.File, size int64, progress Progress) error {
	n, err := io.Copy(temp, io.TeeReader(io.LimitReader(r, size+1), &counter{all: size, progress: progress}))
	switch {
	case err != nil:
		return err
	case n < size:
		return fmt.Errorf("the backup is truncated: it has %d of %d bytes", n, size)
	case n > size:
		return fmt.Errorf("the input has more data than the backup of %d bytes", size)
	}
	return temp.Sync()
}

// headerBytes is the size of the header of an SQLite database
// (https://sqlite.org/fileformat2.html#the_database_header).
const headerBytes = 100

// backupBytes returns the size of a backup with this header.
func backupBytes(header []byte) (int64, error) {
	const magic, pageSizeAt, readVersionAt, pagesAt = "SQLite format 3\x00", 16, 19, 28
	if len(header) < headerBytes || !strings.HasPrefix(string(header), magic) {
		return 0, errors.New("the input is not a backup of a plant store: it is not an SQLite database")
	}
	if header[readVersionAt] != 1 {
		return 0, errors.New("the input is a store and not a backup: it lacks the frames of the WAL; " +
			"use the output of plantstore backup")
	}
	page := int64(binary.BigEndian.Uint16(header[pageSizeAt:]))
	if page == 1 {
		page = 1 << 16
	}
	return page * int64(binary.BigEndian.Uint32(header[pagesAt:])), nil
}
