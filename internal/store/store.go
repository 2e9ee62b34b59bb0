// Package store is what engines share: the types and errors of their methods, digests, and the tables of tokens, of the
// audit log and of webhooks. The packages writepath, admin, webhook and move declare the methods that they need of an
// engine, and package storetest tests all of them.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// Create is one plant to store.
type Create struct {
	Plant plant.NewPlant
	By    int64     // id of the token that creates it; 0 for the operator's own commands
	At    time.Time // time of creation; kept to the microsecond
}

// OrderByID appends to order the indexes of the batch by ascending id of the plants. Equal ids stay in the order of the
// batch.
func OrderByID(order []int32, batch []Create) []int32 {
	for i := range batch {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(batch[i].Plant.ID, batch[j].Plant.ID), cmp.Compare(i, j))
	})
	return order
}

// Outcome is the result for one plant of a batch. The zero value means that the plant was created.
type Outcome struct {
	Replayed bool  // the plant was already stored with the same content
	Conflict error // a *plant.Error: of plant.Differences if another plant has the id, or of Damaged
}

// Created reports whether the plant was created.
func (o Outcome) Created() bool { return !o.Replayed && o.Conflict == nil }

// State is the state of a store that a server polls.
type State struct {
	TokenChanges int64 // changes with every change of a token other than its last use
	Plants       int64 // number of stored plants: an estimate where counting is slow, -1 if unknown
}

// Sizes are the sizes of a SQLite file, in bytes.
type Sizes struct {
	File, WAL int64
	WALMax    int64 // a larger WAL means that a reader blocks its checkpoint
	DiskFree  int64 // free space in the file system; -1: unknown
}

// Durability describes an acknowledgement of an engine to the operator.
type Durability struct {
	Guarantee string   // where an acknowledged plant is stored: "on stable storage of …"
	Standby   bool     // an acknowledged plant is stored on more than one machine
	Warnings  []string // why the guarantee may not hold, each with advice
}

// CreatorName returns plant.Record.CreatedBy for the name of the token and the id of a creator. The name is empty for
// the operator's own commands, whose id is 0, and for a subject that was removed.
func CreatorName(name string, id int64) string {
	if name == "" && id != 0 {
		return "id " + strconv.FormatInt(id, 10)
	}
	return auth.PrincipalName(name)
}

// Scanned is a plant that an engine's Scan reads without copying its texts.
type Scanned struct {
	ID        int64
	Name, Tag []byte // memory of the engine; a nil Tag is no tag, an empty one is an empty tag
	CreatedAt int64  // microseconds since 1970 in UTC
	CreatedBy int64  // as in Create
	Damaged   bool   // the row does not match its digest, so only the ID can be right
}

// Version returns the version of the plant.
func (p *Scanned) Version() Version { return Version{p.ID, time.UnixMicro(p.CreatedAt), p.CreatedBy} }

// Plant returns the plant with copies of its texts.
func (p *Scanned) Plant() plant.NewPlant {
	n := plant.NewPlant{ID: p.ID, Plant: plant.Plant{Name: string(p.Name)}}
	if p.Tag != nil {
		n.Tag = plant.Tagged(string(p.Tag))
	}
	return n
}

// ScanRows implements admin.Engine.Scan: it calls visit for the plants that read returns, until read returns false.
func ScanRows(
	from int64, rows int, visit func(*Scanned), read func(*Scanned) (ok bool, err error),
) (next int64, more bool, err error) {
	var p Scanned
	next = from
	for bytes := 0; bytes <= PlantsBytes; rows-- {
		ok, err := read(&p)
		if err != nil || !ok {
			return next, err == nil && rows == 0, err
		}
		bytes += len(p.Name) + len(p.Tag)
		visit(&p)
		if p.ID == math.MaxInt64 {
			return p.ID, false, nil
		}
		next = p.ID + 1
	}
	return next, true, nil
}

// Damaged returns the error for a plant whose row does not match its digest.
func Damaged(id int64) *plant.Error {
	return plant.Errorf(plant.CodePlantDamaged,
		"plant %d is damaged in the store; the operator can restore it from a backup", id)
}

// Query selects plants for an engine's List.
type Query struct {
	From  int64     // the smallest id to return; math.MinInt64 for all
	Tag   plant.Tag // only plants with exactly this tag; the zero value selects every plant
	Limit int       // at least 1
}

// PlantsBytes bounds the texts of the plants that one call of an engine returns. The last plant may exceed it.
const PlantsBytes = 8 << 20

// Selector selects tokens to revoke: by id, by name, or by hash.
type Selector struct {
	ID   int64     // used if it is not 0
	Name string    // used if there is no id and it is not empty
	Hash auth.Hash // used otherwise
}

// SubjectPrune selects subjects to remove. It never selects a revoked subject whose JWTs may still be valid.
type SubjectPrune struct {
	UnusedSince time.Time // the last use, or else the first one, is before this time
	At          time.Time // time of the removal
	Limit       int       // at least 1
}

// RevokedBefore returns the time before which a subject must have been revoked: all JWTs from before that revocation
// have expired.
func (p SubjectPrune) RevokedBefore() time.Time {
	return p.At.Add(-auth.JWTLifetimeMax - 2*auth.JWTLeeway)
}

// Column returns the column of the table tokens by which s selects, and its value: an int64, a string or a []byte.
func (s Selector) Column() (name string, value any) {
	switch {
	case s.ID != 0:
		return "id", s.ID
	case s.Name != "":
		return "name", s.Name
	default:
		return "hash", s.Hash[:]
	}
}

// Errors of engines and of the store besides *plant.Error. Compare with errors.Is.
var (
	// ErrNotFound means that there is no such plant or token.
	ErrNotFound = errors.New("not found")
	// ErrNoStore means that a store that must exist does not exist.
	ErrNoStore = errors.New("there is no store")
	// ErrNameTaken means that a valid token has this name.
	ErrNameTaken = errors.New("name taken")
	// ErrTooManySubjects means that no other subject of an issuer can be stored.
	ErrTooManySubjects = errors.New("the store has too many subjects")
	// ErrTooManyJWTs means that no other revoked JWT can be stored.
	ErrTooManyJWTs = errors.New("the store has too many revoked JWTs; revoke the subject instead")
	// ErrBusy means that another process kept the store locked until the end of the context. The call changed nothing.
	ErrBusy = errors.New("another process has locked the store")
	// ErrNotOwner means that another server accepts changes, or may do so. The call changed nothing.
	ErrNotOwner = errors.New("another server may accept changes")
	// ErrStandby means that this server is a standby, so another one accepts changes.
	ErrStandby = errors.New("standby")
	// ErrNotOpen means that the server has not opened its store yet, for example because it restores it.
	ErrNotOpen = errors.New("the server has not opened its store yet")
	// ErrFull means that the disk is full. The call changed nothing.
	ErrFull = errors.New("no space left for the store; free space on its disk")
	// ErrClosed means that the store is shutting down. The call changed nothing.
	ErrClosed = errors.New("the store is shutting down")
	// ErrOutcomeUnknown means that the batch may be stored.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrBroken means that the engine must not be used any more: the process has to end, and the next one recovers the
	// store. The call changed nothing, unless the error wraps ErrOutcomeUnknown too.
	ErrBroken = errors.New("the store failed")
	// ErrRemoved means that the files of the store were removed, renamed or replaced. It wraps ErrBroken.
	ErrRemoved = fmt.Errorf("%w: its files have changed", ErrBroken)
)
