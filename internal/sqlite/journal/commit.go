// Package journal has the form of the commits that a store records in its table plantstore_journal, and of the segments
// that keep them in the destination of its backups. A backup and the segments after it are the store at any commit
// between them.
package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// History identifies the content of a store: it is a hash of all its commits since a random start. Two stores with the
// same history have the same content, and a commit follows only the history that it was made in.
type History [sha256.Size]byte

// HistoryFrom returns the history in a column; the zero value if it has another size.
func HistoryFrom(b []byte) (h History) {
	if len(b) == len(h) {
		copy(h[:], b)
	}
	return h
}

// ParseHistory parses hexadecimal digits; the zero value for any other text.
func ParseHistory(text string) History {
	b, _ := hex.DecodeString(text) // HistoryFrom checks the size
	return HistoryFrom(b)
}

// String returns hexadecimal digits.
func (h History) String() string { return hex.EncodeToString(h[:]) }

// Short returns the digits of the history that names of segments have.
func (h History) Short() string { return h.String()[:ShortHistory] }

// Commit is a commit of a store.
type Commit struct {
	Number  int64     // state.commits after it
	At      time.Time // just before it, in whole microseconds
	Changes []byte    // that it made; AppendPlants and ChangedRows have their form
}

// After returns the history after a commit, which follows h.
func (h History) After(c *Commit) (after History) {
	sum := sha256.New()
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], uint64(c.Number))
	binary.BigEndian.PutUint64(numbers[8:], uint64(c.At.UnixMicro()))
	sum.Write(h[:])
	sum.Write(numbers[:])
	sum.Write(c.Changes)
	return History(sum.Sum(nil))
}

// The first byte of the changes of a commit.
const (
	rowsKind   = 1 // a changeset of SQLite's session extension follows
	plantsKind = 2 // created plants
	eventsKind = 3 // created plants, each with an event in the outbox
)

// ChangedRows returns the changes of a commit that changed the rows in a changeset (sqlite3.Session) and created no
// plant.
func ChangedRows(changeset []byte) []byte { return append([]byte{rowsKind}, changeset...) }

// AppendPlants appends the changes of a commit that created plants. digests is the sum of their digests. events tells
// whether each of them has an event. Plants in ascending order of their ids take the least space.
//
// Equal columns are together, which helps the compression: all ids, as differences, then all times, all creators, all
// lengths, and all texts. Numbers are varints.
func AppendPlants(b []byte, created []*store.Create, digests int64, events bool) []byte {
	kind := byte(plantsKind)
	if events {
		kind = eventsKind
	}
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(digests))
	b = binary.AppendUvarint(b, uint64(len(created)))
	id, at := int64(0), int64(0)
	for _, c := range created {
		b = binary.AppendUvarint(b, uint64(c.Plant.ID-id)) // the difference may wrap around, and the sum wraps back
		id = c.Plant.ID
	}
	for _, c := range created {
		b = binary.AppendVarint(b, c.At.UnixMicro()-at)
		at = c.At.UnixMicro()
	}
	for _, c := range created {
		b = binary.AppendVarint(b, c.By)
	}
	for _, c := range created {
		b = binary.AppendUvarint(b, uint64(len(c.Plant.Name)))
		tag, ok := c.Plant.Tag.Get()
		if !ok {
			b = append(b, 0)
		} else {
			b = binary.AppendUvarint(b, uint64(len(tag))+1)
		}
	}
	for _, c := range created {
		b = append(b, c.Plant.Name...)
		tag, _ := c.Plant.Tag.Get()
		b = append(b, tag...)
	}
	return b
}

// ErrForm is the error for changes that do not have the form of this package.
var ErrForm = errors.New("a commit does not have the form of this plantstore")

// Rows returns the changeset of a commit. ok is false for a commit that created plants.
func (c *Commit) Rows() (changeset []byte, ok bool) {
	if len(c.Changes) == 0 || c.Changes[0] != rowsKind {
		return nil, false
	}
	return c.Changes[1:], true
}

// Plants returns the plants that a commit created, the sum of their digests, and whether they have events. The error is
// ErrForm.
func (c *Commit) Plants() (created []store.Create, digests int64, events bool, err error) {
	const bytesMin = 5 // least size of a plant
	in := bytes.NewReader(c.Changes)
	number := func() uint64 {
		n, errRead := binary.ReadUvarint(in)
		err = cmp.Or(err, errRead)
		return n
	}
	signed := func() int64 {
		n, errRead := binary.ReadVarint(in)
		err = cmp.Or(err, errRead)
		return n
	}
	kind := number()
	digests = int64(number())
	count := number()
	if kind != plantsKind && kind != eventsKind || count > uint64(in.Len()/bytesMin) {
		return nil, 0, false, fmt.Errorf("commit %d: %w", c.Number, ErrForm)
	}
	created = make([]store.Create, count)
	id, at := int64(0), int64(0)
	for i := range created {
		id += int64(number())
		created[i].Plant.ID = id
	}
	for i := range created {
		at += signed()
		created[i].At = time.UnixMicro(at)
	}
	for i := range created {
		created[i].By = signed()
	}
	lengths := make([]uint64, 2*count)
	for i := range lengths {
		lengths[i] = number()
	}
	rest := c.Changes[len(c.Changes)-in.Len():]
	text := func(n uint64) string {
		if n > uint64(len(rest)) {
			err = cmp.Or(err, io.ErrUnexpectedEOF)
			return ""
		}
		part := string(rest[:n])
		rest = rest[n:]
		return part
	}
	for i := range created {
		created[i].Plant.Name = text(lengths[2*i])
		if tag := lengths[2*i+1]; tag > 0 {
			created[i].Plant.Tag = plant.Tagged(text(tag - 1))
		}
	}
	if err != nil || len(rest) > 0 {
		return nil, 0, false, fmt.Errorf("commit %d: %w", c.Number, ErrForm)
	}
	return created, digests, kind == eventsKind, nil
}
