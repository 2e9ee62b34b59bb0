package store

import (
	"errors"

	"plantstore/internal/plant"
)

// ClientError returns the error for the client of a change that an engine did not confirm. Its message is unknown if
// the change may be stored; otherwise it is unchanged with the reason.
func ClientError(err error, unchanged, unknown string) *plant.Error {
	switch {
	case errors.Is(err, ErrOutcomeUnknown): // whatever else it wraps
		return &plant.Error{Code: plant.CodeOutcomeUnknown, Message: unknown}
	case errors.Is(err, ErrFull):
		return plant.Errorf(plant.CodeStoreFull,
			"%s the disk of the store is full; send it again when the disk has free space", unchanged)
	case errors.Is(err, ErrStandby):
		return plant.Errorf(plant.CodeStoreUnavailable,
			"%s this server is a standby; make changes at the server that accepts plants", unchanged)
	case errors.Is(err, ErrNotOwner):
		return plant.Errorf(plant.CodeStoreUnavailable,
			"%s a standby may have replaced this server; make changes at the server that accepts plants", unchanged)
	}
	return plant.Errorf(plant.CodeStoreUnavailable, "%s the store cannot write now; send it again", unchanged)
}
