package backupfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"plantstore/internal/safefile"
)

// Manifest describes a backup. It is a file beside the backup, with the suffix ManifestSuffix.
//
// No recorded commit in the backup has a later time than MadeAt, even if the clock was set back, and none after it has
// an earlier time than the last one in it.
type Manifest struct {
	Format  int       `json:"format"`            // manifestFormat
	MadeAt  time.Time `json:"made_at,omitzero"`  // time of the snapshot, or of its last commit if that is later
	Store   string    `json:"store"`             // identity of the store, in hexadecimal digits
	Commits int64     `json:"commits"`           // number of the last commit
	History string    `json:"history,omitempty"` // after it, in hexadecimal digits (package journal); empty: not recorded
	Plants  int64     `json:"plants"`
	Bytes   int64     `json:"bytes"`  // size of the file
	SHA256  string    `json:"sha256"` // the file's, in hexadecimal digits

	CommittedAt time.Time `json:"committed_at,omitzero"` // time of the last commit; zero: not recorded
	Timeline    string    `json:"timeline,omitempty"`    // has the commit in a destination; empty: no server made it
}

// ManifestSuffix follows the name of the backup in the name of its manifest.
const ManifestSuffix = ".json"

const manifestFormat = 1

// ManifestBytesMax limits the size of a manifest.
const ManifestBytesMax = 1 << 20

// ManifestError is the reason why a file that could be read is not a complete backup.
type ManifestError string

func (e ManifestError) Error() string { return string(e) }

// ErrNoManifest is the error for a backup without a manifest.
const ErrNoManifest = ManifestError("the manifest is missing, so nothing shows whether the backup is complete")

// ReadManifest reads the manifest at path.
func ReadManifest(path string) (m Manifest, err error) {
	text, err := safefile.ReadSmall(path, ManifestBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w", path, ErrNoManifest)
	}
	if err != nil {
		return m, err
	}
	return ParseManifest(path, text)
}

// ParseManifest parses the text of the manifest that a path or URL names.
func ParseManifest(path string, text []byte) (m Manifest, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, ManifestError(fmt.Sprintf("%s is not the manifest of a backup: %v", path, err))
	}
	if m.Format != manifestFormat {
		return m, ManifestError(fmt.Sprintf("%s has format %d, and this plantstore supports only format %d: "+
			"use the plantstore that made the backup", path, m.Format, manifestFormat))
	}
	// Package time reads more zones and years than it writes.
	if m.MadeAt = m.MadeAt.UTC(); m.MadeAt.Year() < 0 || m.MadeAt.Year() > 9999 {
		return m, ManifestError(fmt.Sprintf(
			"%s is not the manifest of a backup: made_at has the year %d", path, m.MadeAt.Year()))
	}
	return m, nil
}

// BackupManifest returns the manifest of the backup at path. It returns an error if path is not a regular file, if the
// manifest is missing or malformed, or if the size of the file differs from the manifest.
func BackupManifest(path string) (Manifest, error) {
	if err := safefile.CheckRegular(path); err != nil {
		return Manifest{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Manifest{}, err
	}
	m, err := ReadManifest(path + ManifestSuffix)
	if err == nil {
		err = m.CheckSize(info.Size())
	}
	return m, err
}

// Write writes the manifest to a new file, which appears when it is on stable storage. The error wraps fs.ErrExist if
// path exists.
func (m *Manifest) Write(path string) error {
	text, err := m.Text()
	if err != nil {
		return err
	}
	return safefile.Write(path, text, false)
}

// Text returns the content of the file of the manifest.
func (m *Manifest) Text() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

// CheckSize returns an error unless a backup of this size can have the manifest.
func (m *Manifest) CheckSize(bytes int64) error {
	if bytes == m.Bytes {
		return nil
	}
	return ManifestError(fmt.Sprintf("it has %d bytes; its manifest has %d", bytes, m.Bytes))
}

// CheckContent returns an error unless a backup of this size, with this SHA-256 in hexadecimal digits, is the backup
// that the manifest describes.
func (m *Manifest) CheckContent(bytes int64, sum string) error {
	if bytes == m.Bytes && sum != m.SHA256 {
		return ManifestError(fmt.Sprintf("its SHA-256 is %s; its manifest has %s", sum, m.SHA256))
	}
	return m.CheckSize(bytes)
}
