package server

import (
	"net/http"

	"plantstore/internal/plant"
	"plantstore/internal/writepath"
)

// alive responds 200 while the process can respond.
func alive(c *Call) error {
	c.WriteJSON(http.StatusOK, []byte(`{"status":"alive"}`+"\n"))
	return nil
}

// readiness is the response of ready with ?verbose.
type readiness struct {
	Status     string   `json:"status"`
	Durability string   `json:"durability"` // the guarantee of an acknowledgement
	Warnings   []string `json:"warnings"`   // why the guarantee may not hold
}

func isVerbose(r *http.Request) bool { return r.URL.RawQuery != "" && r.URL.Query().Has("verbose") }

// ready responds 200 if the store accepts plants, otherwise 503. For the operator, ?verbose adds the durability of the
// store.
func ready(w *writepath.Service, operator bool) HandlerFunc {
	return func(c *Call) error {
		if err := w.Ready(); err != nil {
			return &plant.Error{Code: plant.CodeStoreUnavailable, Message: err.Error()}
		}
		if operator && isVerbose(c.Request) {
			d := w.Durability()
			return c.Respond(readiness{"ready", d.Guarantee, append([]string{}, d.Warnings...)})
		}
		c.WriteJSON(http.StatusOK, []byte(`{"status":"ready"}`+"\n"))
		return nil
	}
}
