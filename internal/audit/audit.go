// Package audit defines the audit log of a store: entries that form a chain by their hashes. The hash of an entry
// covers the entry and the hash of its predecessor, so Verify detects a changed, removed or added entry.
//
// An engine stores the entries as rows, with the two ends of the chain. docs/reference/audit.md describes the format.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Action is the kind of an event.
type Action string

// The actions. docs/reference/audit.md lists their details.
const (
	TokenCreate  Action = "token.create"
	TokenRotate  Action = "token.rotate"
	TokenRevoke  Action = "token.revoke"
	TokenPrune   Action = "token.prune"
	StoreMigrate Action = "store.migrate"
	StoreMove    Action = "store.move"
	StoreReopen  Action = "store.reopen"
	Prune        Action = "audit.prune"
	EventsLost   Action = "audit.lost"

	PlantsImport  Action = "plants.import"
	PlantsExport  Action = "plants.export"
	PlantsErase   Action = "plants.erase"
	PlantsCorrect Action = "plants.correct"
	StoreBackup   Action = "store.backup"
	BackupStart   Action = "backup.start"
	StoreRestore  Action = "store.restore"

	BackupDownload Action = "backup.download"
	BackupDelete   Action = "backup.delete"
	BackupDrill    Action = "backup.drill"

	ServerStart  Action = "server.start"
	ServerReload Action = "server.reload"
	ServerStop   Action = "server.stop"
	ScopeRefused Action = "scope.refused"
	SignIn       Action = "admin.sign_in"

	SignInRefused Action = "admin.sign_in_refused"
	RequestEnded  Action = "admin.request_ended"

	WebhookChange Action = "webhook.change"
	WebhookRetry  Action = "webhook.retry"
	WebhookDrop   Action = "webhook.drop"
)

// Kind is the kind of an actor.
type Kind string

// The kinds of actors.
const (
	User  Kind = "user"  // a user of the operating system
	Token Kind = "token" // the credential of a request
)

// Areas are the parts of the actions before the dot.
var Areas = []string{
	"admin", "audit", "backup", "plants", "scope", "server", "store", "token", "webhook",
}

// Actor is the person or the program that caused an event. Seal shortens texts of more than textBytesMax bytes.
type Actor struct {
	ID       string `json:"id,omitempty"` // a token's id, or a user's uid
	Kind     Kind   `json:"kind,omitempty"`
	Name     string `json:"name,omitempty"` // empty if it is unknown
	SudoUser string `json:"sudo_user,omitempty"`
}

// Origin is the source of an event.
type Origin struct {
	Actor     Actor
	Address   string // the client's; empty for a command
	RequestID string // empty for a command
}

// Detail is a property of an event. A key has lower-case letters, digits, and ._- after the first letter, and is at
// most keyBytesMax bytes long. No value contains a secret.
type Detail struct{ Key, Value string }

// Event is an event to append to the log.
type Event struct {
	Time   time.Time // kept to the microsecond
	Action Action
	Origin
	Details []Detail // at most detailsMax, with different keys
}

// Entry is an event in the log.
type Entry struct {
	Event          // as stored: in UTC, with its details sorted by key
	Sequence int64 // 1 for the first entry, and one more for each later one
	Previous Hash  // hash of the previous entry; zeros for the first entry
	Hash     Hash
}

// Hash is the hash of an entry: the SHA-256 of the previous hash and of the canonical text.
type Hash [sha256.Size]byte

// HashFrom returns the hash in a column of a row. Bytes of another length are the zero hash, which no entry has.
func HashFrom(column []byte) (h Hash) {
	if len(column) == len(h) {
		copy(h[:], column)
	}
	return h
}

// String returns the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Link is the place of an entry in the chain. The zero value is the place before the first entry.
type Link struct {
	Sequence int64
	Hash     Hash
}

// String returns the sequence number and the hash, as ParseLink parses them.
func (l Link) String() string { return fmt.Sprintf("%d:%s", l.Sequence, l.Hash) }

// ParseLink parses the place of an entry in the chain.
func ParseLink(text string) (Link, error) {
	sequence, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(sequence, 10, 64)
	bytes, errHash := hex.DecodeString(hash)
	if err != nil || n < 1 || errHash != nil || len(bytes) != len(Hash{}) {
		return Link{}, fmt.Errorf(
			"%q is not a head; use the form 42: and 64 hexadecimal digits, as audit verify prints it", text)
	}
	return Link{Sequence: n, Hash: HashFrom(bytes)}, nil
}

// IsBy reports whether a text is the name or the id of the actor, or the user who ran sudo, or empty.
func (e Entry) IsBy(actor string) bool {
	a := e.Actor
	return actor == "" || slices.Contains([]string{a.Name, a.ID, a.SudoUser}, actor)
}

// IsOf reports whether a text is the action, its area such as token, or empty.
func (e Entry) IsOf(action string) bool {
	area, _, _ := strings.Cut(string(e.Action), ".")
	return action == "" || action == string(e.Action) || action == area
}

// Notable returns the details of the entry. Of the settings with which a server has started it returns those that
// differ from their defaults, and others are the rest.
func (e Entry) Notable() (details, rest []Detail) {
	if e.Action != ServerStart {
		return e.Details, nil
	}
	for _, d := range e.Details {
		name, ok := strings.CutPrefix(d.Key, "setting.")
		changed := slices.ContainsFunc(e.Details, func(o Detail) bool { return o.Key == "source."+name })
		if ok && !changed {
			rest = append(rest, d)
		} else {
			details = append(details, d)
		}
	}
	return details, rest
}

// AppendJSON appends the canonical text of the entry, with both hashes as further members.
func (e Entry) AppendJSON(dst []byte) []byte {
	return fmt.Appendf(dst, `%s,"previous":"%s","hash":"%s"}`, strings.TrimSuffix(e.Text(), "}"), e.Previous, e.Hash)
}

// ParseJSON parses an entry that AppendJSON has encoded. It does not check the hash.
func ParseJSON(text string) (Entry, error) {
	const separator = `,"previous":"`
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return Entry{}, errNotCanonical
	}
	previous, hash, _ := strings.Cut(text[i+len(separator):], `","hash":"`)
	p, err := hex.DecodeString(previous)
	h, errHash := hex.DecodeString(strings.TrimSuffix(hash, `"}`))
	if err != nil || errHash != nil {
		return Entry{}, errNotCanonical
	}
	var c canonical
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Entry{}, fmt.Errorf("its text is not valid: %w", err)
	}
	return Row{Sequence: c.Sequence, Text: text[:i] + "}", Previous: HashFrom(p), Hash: HashFrom(h)}.Entry()
}

// Ends are the ends of the stored part of a chain. An engine stores them apart from the rows, so Verify detects that
// the newest rows are missing.
type Ends struct {
	Anchor Link // newest entry that was pruned; the zero value if none was
	Head   Link // newest entry; the anchor if the log is empty
}

// Row is an entry as an engine stores it. Its content is not verified.
type Row struct {
	Sequence int64
	Text     string // the canonical text
	Previous Hash
	Hash     Hash
}

// Link returns the place of the row in the chain.
func (r Row) Link() Link { return Link{r.Sequence, r.Hash} }

// Seal returns the row of an event that follows an entry. It replaces control characters and invalid UTF-8 in the
// texts, and shortens long ones, so it never fails.
func Seal(previous Link, event Event) Row {
	r := Row{Sequence: previous.Sequence + 1, Previous: previous.Hash}
	r.Text = encode(r.Sequence, clean(event))
	r.Hash = r.sum()
	return r
}

// sum returns the hash of the content.
func (r Row) sum() (h Hash) {
	d := sha256.New()
	d.Write(r.Previous[:])
	d.Write([]byte(r.Text))
	d.Sum(h[:0])
	return h
}
