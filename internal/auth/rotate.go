package auth

import (
	"slices"
	"time"
)

// Rotation is the change of a store that replaces the valid token of a name.
type Rotation struct {
	Old   Token   // the replaced token, as it was before
	New   Token   // its successor, still without an id
	Ended []Token // the tokens of the name whose ExpiresAt changes, with the new value
}

// Rotate returns the rotation that replaces the newest valid token of tokens, which are all the tokens of one name by
// ascending id. It returns false if none of them is valid at fresh.CreatedAt.
//
// The successor is fresh with the scopes of the old token and, unless fresh.ExpiresAt is set, with the same lifetime.
// The older tokens of the name expire after the overlap, unless they expire earlier.
func Rotate(tokens []Token, fresh Token, overlap time.Duration) (Rotation, bool) {
	var r Rotation
	for _, t := range slices.Backward(tokens) {
		if t.ValidAt(fresh.CreatedAt) {
			r.Old = t
			break
		}
	}
	if r.Old.ID == 0 {
		return Rotation{}, false
	}
	r.New = fresh
	r.New.Scopes = r.Old.Scopes
	if fresh.ExpiresAt.IsZero() && !r.Old.ExpiresAt.IsZero() {
		r.New.ExpiresAt = fresh.CreatedAt.Add(r.Old.ExpiresAt.Sub(r.Old.CreatedAt))
	}
	end := fresh.CreatedAt.Add(overlap)
	for _, t := range tokens {
		if !t.Revoked() && !t.expiredAt(end) {
			t.ExpiresAt = end
			r.Ended = append(r.Ended, t)
		}
	}
	return r, true
}
