package server

import (
	"context"
	"errors"
	"net/http"

	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// alive responds 200 while the process can respond.
func alive(c *Call) error {
	c.WriteJSON(http.StatusOK, []byte(`{"status":"alive"}`+"\n"))
	return nil
}

// readiness is the response of ready with ?verbose.
type readiness struct {
	Status     string `json:"status"`
	Durability string `json:"durability"` // the guarantee of an acknowledgement
	Warnings   any    `json:"warnings"`   // see Config.Warnings
}

func isVerbose(r *http.Request) bool { return r.URL.RawQuery != "" && r.URL.Query().Has("verbose") }

// ready responds 200 if the store accepts plants, otherwise 503. For the operator, ?verbose adds the durability of the
// store and the warnings; without them there is no operator.
func ready(w *writepath.Service, warnings func(context.Context) any) HandlerFunc {
	return func(c *Call) error {
		if err := w.Ready(); err != nil {
			return unready(err, warnings == nil)
		}
		if warnings != nil && isVerbose(c.Request) {
			return c.Respond(readiness{"ready", w.Durability().Guarantee, warnings(c.Context())})
		}
		c.WriteJSON(http.StatusOK, []byte(`{"status":"ready"}`+"\n"))
		return nil
	}
}

// unready returns the error of a server that accepts no plants. Only the operator learns hosts and paths.
func unready(err error, public bool) *plant.Error {
	for _, short := range []error{store.ErrNotOpen, store.ErrStandby, store.ErrNotOwner} {
		if public && errors.Is(err, short) {
			err = short
		}
	}
	return &plant.Error{Code: plant.CodeStoreUnavailable, Message: err.Error()}
}
