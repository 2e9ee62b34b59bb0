package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// checkEvery is the time between two checks of the credential of a running request. A revocation is in memory
// within 250 ms, so the request ends within a second.
const checkEvery = 500 * time.Millisecond

// watched calls the function of a route, and ends the request when the credential is no longer valid: it cancels the
// context with a *plant.Error as the cause, and ends a response that has begun. Any route of the admin listener with a
// scope may scan the store or wait for its client.
func (h *handler) watched(c *Call) error {
	ctx, cancel := context.WithCancelCause(c.Context())
	c.Request = c.WithContext(ctx)
	c.ending = &ending{control: http.NewResponseController(c.ResponseWriter)}
	var watching sync.WaitGroup
	watching.Go(func() { h.watch(ctx, cancel, c) }) // ends with ctx
	defer watching.Wait()
	defer cancel(nil)
	err := c.route.Handle(c)
	cancel(nil)
	watching.Wait() // then it does not use c
	cause := c.ending.cause
	if cause == nil {
		return err
	}
	reads := c.Method == http.MethodGet || c.Method == http.MethodHead
	c.code = cause.Code
	switch {
	case c.ending.cut, reads && c.status != 0:
		panic(http.ErrAbortHandler) // the client must notice that the response is incomplete
	case reads:
		return cause
	}
	return err // the outcome of the change
}

// watch checks the credential of a request until ctx ends.
func (h *handler) watch(ctx context.Context, cancel context.CancelCauseFunc, c *Call) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := h.authorize(c, true)
		if err == nil || ctx.Err() != nil {
			continue
		}
		reason, cause := asPlantError(err).Message, CredentialEnded(err)
		if invalid, ok := errors.AsType[*auth.Invalid](err); ok {
			c.invalid, reason = invalid, invalid.Reason
		}
		h.audit.Collect(audit.Event{
			Time: time.Now(), Action: audit.RequestEnded, Origin: c.Origin(),
			Details: []audit.Detail{
				{Key: "reason", Value: reason}, {Key: "request", Value: c.Method + " " + c.route.Path},
			},
		})
		c.ending.end(cause)
		cancel(cause)
		return
	}
}

// checkArrived checks the credential of a request again if its body took long to arrive.
func (c *Call) checkArrived() error {
	if time.Since(c.started) < checkEvery || c.route == nil {
		return nil
	}
	if _, err := c.handler.authorize(c, true); err != nil {
		return CredentialEnded(err)
	}
	return nil
}

// CredentialEnded returns the error for the client of a request whose credential failed a later check.
func CredentialEnded(err error) *plant.Error {
	if status := asPlantError(err).Code.Status(); status == http.StatusUnauthorized || status == http.StatusForbidden {
		return plant.Errorf(plant.CodeCredentialInvalid, "the request ended because its credential is no longer valid: "+
			"it has expired or was revoked, or the session has ended")
	}
	return plant.Errorf(plant.CodeStoreUnavailable,
		"the request ended because the store cannot check its credential now; send the request again")
}

// ending ends the response to a request.
type ending struct {
	control *http.ResponseController // controls the wrapped writer

	mu    sync.Mutex   // guards the fields below, and the order of write deadlines
	began bool         // the status was written
	cause *plant.Error // why the request has ended; nil: it has not
	cut   bool         // the response had begun, so its write deadline stays in the past
}

// begin records that the status is written.
func (e *ending) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began = true
}

// end ends a response that has begun: the write that waits for the client, and all further ones.
func (e *ending) end(cause *plant.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cause, e.cut = cause, e.began
	if e.cut {
		_ = e.control.SetWriteDeadline(time.Unix(1, 0)) // fails if the client has disconnected
	}
}

// setWriteDeadline sets the write deadline, unless the response has ended.
func (e *ending) setWriteDeadline(at time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cut {
		return e.cause
	}
	return e.control.SetWriteDeadline(at)
}
