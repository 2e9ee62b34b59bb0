package admin

import (
	"context"
	"time"

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
	return &failure{store.ClientError(err, "nothing was changed because",
		"the outcome of the change is unknown; read the state before you send the request again"), err}
}
