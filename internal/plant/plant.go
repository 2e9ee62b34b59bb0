// Package plant is the domain: what a plant is, how one is read from JSON and
// written to it, and every error that a client can be answered with.
//
// The specification names two shapes: NewPlant, which a client sends, and
// Plant, which it gets back (NewPlant without its id). Both are here, with the
// rules that the specification leaves open: a tag that is absent is not an
// empty tag, and an id is exact over the whole of int64.
package plant

import (
	"cmp"
	"time"
)

// Plant is what a client is answered with: a name, and a tag if one was sent.
// Two plants are the same plant content if they are equal by ==.
type Plant struct {
	Name string // UTF-8 without U+0000; may be empty
	Tag  Tag
}

// BodyBytesMax is the largest body that a server can be set to accept. It bounds
// a plant wherever it comes from, and what can hold one.
const BodyBytesMax = 16 << 20

// Bytes returns how many bytes the texts of the plant have.
func (p Plant) Bytes() int { return len(p.Name) + len(p.Tag.text) }

// NewPlant is what a client sends: a plant and its identification number.
type NewPlant struct {
	ID int64 // any int64
	Plant
}

// Record is a plant as the store keeps it.
type Record struct {
	NewPlant
	CreatedAt time.Time // UTC, whole microseconds
	CreatedBy string    // the name of the credential that created it; empty for the operator's own import
}

// Tag is a plant's optional tag. The zero value is no tag, which is not the
// same as an empty one. Tags can be compared with ==.
type Tag struct {
	text    string
	present bool
}

// Tagged returns a tag with that text, which may be empty.
func Tagged(text string) Tag { return Tag{text: text, present: true} }

// Get returns the tag's text, and whether there is a tag at all.
func (t Tag) Get() (text string, ok bool) { return t.text, t.present }

// CompareID orders plants by id, for use with the slices package.
func CompareID(a, b NewPlant) int { return cmp.Compare(a.ID, b.ID) }
