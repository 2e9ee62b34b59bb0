// Package plant defines plants, their JSON form, and the catalogue of the errors that clients receive.
//
// The specification has two shapes: NewPlant, which a client sends, and Plant, which is the response (NewPlant without
// its id). This package adds the rules that the specification leaves open: an absent tag differs from an empty tag, and
// an id is exact over all values of int64.
package plant

import "time"

// Plant is the content of a plant: a name and an optional tag. Two plants have the same content if they are equal by
// ==.
type Plant struct {
	Name string // UTF-8 without U+0000; may be empty
	Tag  Tag
}

// BodyBytesMax is the upper limit of the server's setting for the largest body, in bytes. It also limits a plant in a
// file, and the memory for one.
const BodyBytesMax = 16 << 20

// Bytes returns the number of bytes of name and tag.
func (p Plant) Bytes() int { return len(p.Name) + len(p.Tag.text) }

// NewPlant is a plant and its identification number, as a client sends them.
type NewPlant struct {
	ID int64 // any int64
	Plant
}

// Record is a stored plant.
type Record struct {
	NewPlant
	CreatedAt time.Time // UTC, whole microseconds
	CreatedBy string    // name of the token that created it; empty after an import by the operator
	Damaged   bool      // the stored row does not match its digest; only ID is set then
}

// Tag is the optional tag of a plant. The zero value is no tag, which differs from an empty tag. Tags are comparable
// with ==.
type Tag struct {
	text    string
	present bool
}

// Tagged returns a tag with a text, which may be empty.
func Tagged(text string) Tag { return Tag{text: text, present: true} }

// Get returns the text of the tag. ok is false if there is no tag.
func (t Tag) Get() (text string, ok bool) { return t.text, t.present }
