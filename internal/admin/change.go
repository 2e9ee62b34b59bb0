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

// change runs a change of the store. A disconnect of the client does not cancel it, so that its outcome is known.
func (s *Service) change(ctx context.Context, do func(context.Context) error) error {
	ctx, end, err := s.begin(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, changeTimeMax)
	defer cancel()
	return s.unchanged(do(ctx))
}

// unchanged returns the error of an operation after a change of the store failed. It logs an unexpected cause.
func (s *Service) unchanged(err error) error {
	code := plant.CodeStoreUnavailable
	message := "nothing was changed because the store is unavailable; send the request again"
	refusal, refused := errors.AsType[*plant.Error](err)
	switch {
	case err == nil:
		return nil
	case refused:
		return refusal
	case errors.Is(err, store.ErrReadOnly):
		code, message = plant.CodeStoreReadOnly, "nothing was changed because a move makes the store read-only"
	case errors.Is(err, store.ErrFull):
		code, message = plant.CodeStoreFull, "nothing was changed because the disk of the store is full; free space on it"
	default:
		s.log.Warn("change for the operator failed", "error", err)
		if errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrBroken) {
			code = plant.CodeOutcomeUnknown
			message = "the outcome of the change is unknown; read the state before you send the request again"
		}
	}
	return &failure{&plant.Error{Code: code, Message: message}, err}
}

// badInput returns the error for an invalid value in the body of a request.
func badInput(message string) error {
	return &plant.Error{Code: plant.CodeInputInvalid, Message: message}
}
