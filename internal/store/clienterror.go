package store

import (
	"errors"

	"plantstore/internal/plant"
)

// refusals are the errors for the client of a change that an engine refused. Every other error means that the store
// cannot write now.
var refusals = []struct {
	cause  error
	code   plant.Code
	reason string
}{
	{ErrFull, plant.CodeStoreFull, "the disk of the store is full; send it again when the disk has free space"},
	{ErrReadOnly, plant.CodeStoreReadOnly, "a move makes the store read-only; send it again"},
}

// ClientError returns the error for the client of a change that an engine did not confirm. Its message is unknown if the
// change may be stored; otherwise it is unchanged with the reason.
func ClientError(err error, unchanged, unknown string) *plant.Error {
	if errors.Is(err, ErrOutcomeUnknown) { // whatever else it wraps
		return &plant.Error{Code: plant.CodeOutcomeUnknown, Message: unknown}
	}
	for _, r := range refusals {
		if errors.Is(err, r.cause) {
			return plant.Errorf(r.code, "%s %s", unchanged, r.reason)
		}
	}
	return plant.Errorf(plant.CodeStoreUnavailable, "%s the store cannot write now; send it again", unchanged)
}
