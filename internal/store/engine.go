// Package store is the write path. Many requests create plants one by one; a
// committer stores them in batches, with one fsync for each batch. An engine that
// can store several batches at the same time has several committers. The package
// also keeps in memory the tokens that authenticate requests.
//
// An Engine stores the plants and the tokens.
package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// Engine stores plants and tokens durably. Its methods may be called from several
// goroutines at the same time. Package storetest has the test suite of an Engine.
//
// The Err variables of this package, wrapped, mean the same for every engine. Any
// other error means that the call changed nothing.
type Engine interface {
	// Insert stores a batch in one transaction and returns the outcome of each
	// plant, in the order of the batch. Plants of one batch may have the same
	// id: their outcomes are those of separate calls in this order. On return
	// without an error, every created or replayed plant is on stable storage.
	//
	// An error applies to the whole batch, and Insert returns no outcomes. If it
	// wraps ErrOutcomeUnknown, the batch may be stored; otherwise none of it is.
	// If it wraps ErrBroken, the engine must not be used any more.
	Insert(ctx context.Context, batch []Create) ([]Outcome, error)

	// Probe commits a change that nothing shows, as Insert commits a small plant. It returns
	// nil if the store can store plants. The errors are those of Insert.
	Probe(ctx context.Context) error

	// Get returns the plant with that id, or ErrNotFound.
	Get(ctx context.Context, id int64) (plant.Record, error)

	// List returns plants by ascending id: at most q.Limit, and fewer if their texts
	// exceed PlantsBytes, but at least one if there is one.
	List(ctx context.Context, q Query) ([]plant.Record, error)

	// Scan calls visit for plants by ascending id, the first id being at least from: for
	// at most rows plants, which is at least 1, and for fewer if their texts exceed
	// PlantsBytes, but at least for one if there is one. It returns the id at which the
	// next call continues; more is false if no plant follows. visit must not use the
	// engine, and the Scanned is valid only until visit returns.
	Scan(ctx context.Context, from int64, rows int, visit func(*Scanned)) (next int64, more bool, err error)

	// CreateToken stores a token and returns its id; t.ID is ignored. It returns
	// ErrNameTaken if a token of that name is valid at t.CreatedAt. This and the other
	// changes of tokens append an entry to the audit log, in the same transaction.
	CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error)

	// CreateFirstTokens stores all the tokens, whose names differ, in a store that
	// never had a token. For any other store it returns false and stores nothing.
	CreateFirstTokens(ctx context.Context, tokens []auth.Token, by audit.Origin) (created bool, err error)

	// RotateToken stores the auth.Rotation of the tokens named t.Name. It returns
	// the new token, as stored, and the old token, as it was before; ErrNotFound if
	// no token of that name is valid at t.CreatedAt.
	RotateToken(
		ctx context.Context, t auth.Token, overlap time.Duration, by audit.Origin,
	) (fresh, old auth.Token, err error)

	// RevokeTokens revokes the selected tokens that are not revoked yet, and returns
	// them; ErrNotFound if there is no such token. A revoked token is invalid from
	// now on, even if at is in the future. If the audit log did not accept the entries,
	// it returns the tokens and an *Unrecorded.
	RevokeTokens(ctx context.Context, selector Selector, at time.Time, by audit.Origin) ([]auth.Token, error)

	// PutSubject stores a token of auth.KindSubject and returns it as stored. If the
	// store has the subject already, it returns the stored one and changes nothing.
	// It returns ErrTooManySubjects if the store has most subjects. State.TokenChanges
	// stays as it is, because every server looks for an unknown subject itself.
	PutSubject(ctx context.Context, t auth.Token, most int) (stored auth.Token, err error)

	// RevokeIdentity stores the revocation t.RevokedAt of a subject or a JWT, whether
	// the store has it or not, and returns it as stored. The later of two revocations
	// of a subject counts. With a JWT it removes revoked JWTs that have expired at
	// t.CreatedAt, if the database allows that. It returns ErrTooManySubjects or ErrTooManyJWTs if the
	// store has most of that kind, and *Unrecorded as RevokeTokens does.
	RevokeIdentity(ctx context.Context, t auth.Token, most int, by audit.Origin) (stored auth.Token, err error)

	// PruneSubjects removes the subjects of a selection and returns them by ascending id;
	// ErrNotFound if there is no such subject. The last use of a subject may be up to a
	// minute older in the store than in a server: that server stores the subject again.
	// It keeps the row with the highest id, so that no id is used twice. It needs the right
	// to delete tokens, which a server does not need.
	PruneSubjects(ctx context.Context, p SubjectPrune, by audit.Origin) (removed []auth.Token, err error)

	// Tokens returns all tokens, also expired and revoked ones, by ascending id, and
	// those of every auth.Kind.
	Tokens(ctx context.Context) ([]auth.Token, error)

	// AppendAudit appends entries to the audit log, in one transaction. It also works
	// while a move makes the store read-only, unless the move fills the store.
	AppendAudit(ctx context.Context, events ...audit.Event) error

	// AuditEnds returns the ends of the audit log.
	AuditEnds(ctx context.Context) (audit.Ends, error)

	// AuditRows returns at most limit rows of the audit log with greater sequence
	// numbers than after, in ascending order. It does not verify them.
	AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error)

	// PruneAudit removes the entries up to an entry from the audit log and appends an
	// entry about it. It returns 0 if they are removed already. The error wraps
	// ErrAuditFault if the log has no such entry.
	PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error)

	// State returns the state that a server polls. It is cheap.
	State(ctx context.Context) (State, error)

	// MarkUsed stores the times of last use of tokens that are later than the stored ones.
	MarkUsed(ctx context.Context, uses []auth.Use) error

	// Durability returns the guarantee of an acknowledgement. It is cheap.
	Durability() Durability

	// Close makes everything durable and closes the store. No other call may run
	// during Close or after it.
	Close() error
}

// Create is one plant to store.
type Create struct {
	Plant plant.NewPlant
	By    int64     // id of the token that creates it; 0 for the operator's own commands
	At    time.Time // time of creation; kept to the microsecond
}

// OrderByID appends to order the indexes of the batch by ascending id of the plants.
// Equal ids stay in the order of the batch.
func OrderByID(order []int32, batch []Create) []int32 {
	for i := range batch {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(plant.CompareID(batch[i].Plant, batch[j].Plant), cmp.Compare(i, j))
	})
	return order
}

// Outcome is the result for one plant of a batch. The zero value means that the
// plant was created.
type Outcome struct {
	Replayed bool  // the plant was already stored with the same content
	Conflict error // the *plant.Error of plant.Differences: another plant has the id
}

// Created reports whether the plant was created.
func (o Outcome) Created() bool { return !o.Replayed && o.Conflict == nil }

// State is the state of a store that a server polls.
type State struct {
	TokenChanges int64     // changes with every change of a token other than its last use
	Move         MoveState // the zero value: the store is not read-only
	Plants       int64     // number of stored plants: an estimate where counting is slow, -1 if unknown
}

// Durability describes an acknowledgement of an engine to the operator.
type Durability struct {
	Guarantee string   // where an acknowledged plant is stored: "on stable storage of …"
	Standby   bool     // an acknowledged plant is stored on more than one machine
	Warnings  []string // why the guarantee may not hold, each with advice
}

// CreatorName returns plant.Record.CreatedBy for the name and the id of a creator. The name is
// empty for the operator's own commands, whose id is 0, and for a subject that PruneSubjects has
// removed.
func CreatorName(name string, id int64) string {
	if name == "" && id != 0 {
		return "id " + strconv.FormatInt(id, 10)
	}
	return name
}

// Scanned is a plant that Engine.Scan reads without copying its texts.
type Scanned struct {
	ID        int64
	Name, Tag []byte // memory of the engine; a nil Tag is no tag, an empty one is an empty tag
	CreatedAt int64  // microseconds since 1970 in UTC
}

// Query selects plants for Engine.List.
type Query struct {
	From  int64     // the smallest id to return; math.MinInt64 for all
	Tag   plant.Tag // only plants with exactly this tag; the zero value selects every plant
	Limit int       // at least 1
}

// PlantsBytes bounds the texts of the plants that one call of Engine.List, Engine.Scan or
// move.Store.Plants returns. The last plant may exceed it.
const PlantsBytes = 8 << 20

// Selector selects tokens for Engine.RevokeTokens: by id, by name, or by hash.
type Selector struct {
	ID   int64     // used if it is not 0
	Name string    // used if there is no id and it is not empty
	Hash auth.Hash // used otherwise
}

// SubjectPrune selects subjects for Engine.PruneSubjects. It never selects a revoked subject
// whose JWTs may still be valid.
type SubjectPrune struct {
	UnusedSince time.Time // the last use, or else the first one, is before this time
	At          time.Time // of the removal
	Limit       int       // at least 1
}

// RevokedBefore returns the time before which the revocation of a subject must be: then all
// JWTs that it concerns have expired.
func (p SubjectPrune) RevokedBefore() time.Time {
	return p.At.Add(-auth.JWTLifetimeMax - 2*auth.JWTLeeway)
}

// TooMany returns the error for a store that has the most of a kind.
func TooMany(kind auth.Kind) error {
	if kind == auth.KindJWT {
		return ErrTooManyJWTs
	}
	return ErrTooManySubjects
}

// Column returns the column of the table tokens that selects, and its value: an int64, a
// string or a []byte.
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
	// ErrBusy means that another process had the store locked until the end of the
	// context. The call changed nothing.
	ErrBusy = errors.New("another process has locked the store")
	// ErrFull means that the disk is full. The call changed nothing.
	ErrFull = errors.New("no space left for the store; free space on its disk")
	// ErrReadOnly means that a move makes the store read-only: it stores no plant and
	// changes no token. The call changed nothing.
	ErrReadOnly = errors.New("a move makes the store read-only")
	// ErrClosed means that the store is shutting down. The call changed nothing.
	ErrClosed = errors.New("the store is shutting down")
	// ErrOutcomeUnknown means that the batch may be stored or not.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrBroken means that the engine must not be used any more: the process has to
	// end, and the next one recovers the store.
	ErrBroken = errors.New("the store failed")
)
