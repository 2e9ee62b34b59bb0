package admin

import (
	"context"
	"errors"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// changeTimeMax bounds a change of the store.
const changeTimeMax = 10 * time.Second

// change runs a change of the store. A disconnect of the client does not cancel it, so its outcome is known.
func change[T any](ctx context.Context, s *Service, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeMax)
	defer cancel()
	return run(ctx, s, s.unchanged, do)
}

// unchanged returns the error of an operation after the engine did not confirm a change. It logs the cause.
func (s *Service) unchanged(err error) error {
	s.log.Warn("change for the operator failed", "error", err)
	return &failure{storeAnswer(err, "nothing was changed because",
		"the outcome of the change is unknown; read the state before you send the request again"), err}
}

// storeAnswer returns the error for a client after the engine did not confirm a change. Its message starts with
// unchanged, or is unknown if the change may be stored.
func storeAnswer(err error, unchanged, unknown string) *plant.Error {
	switch {
	case errors.Is(err, store.ErrReadOnly):
		return plant.Errorf(plant.CodeStoreReadOnly, "%s a move makes the store read-only", unchanged)
	case errors.Is(err, store.ErrFull):
		return plant.Errorf(plant.CodeStoreFull, "%s the disk of the store is full; free space on it", unchanged)
	case errors.Is(err, store.ErrOutcomeUnknown), errors.Is(err, store.ErrBroken):
		return &plant.Error{Code: plant.CodeOutcomeUnknown, Message: unknown}
	}
	return plant.Errorf(plant.CodeStoreUnavailable, "%s the store is unavailable; send the request again", unchanged)
}
