package server

import (
	"encoding/json"
	"net/http"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// alive answers as long as the process can answer at all.
func alive(w http.ResponseWriter, _ *http.Request, _ auth.Principal) error {
	writeJSON(w, http.StatusOK, []byte(`{"status":"alive"}`+"\n"))
	return nil
}

// readiness is what ready answers if it is asked for ?verbose.
type readiness struct {
	Status     string   `json:"status"`
	Durability string   `json:"durability"` // of a plant that is answered 200
	Doubts     []string `json:"doubts"`     // why that may not hold
}

// ready answers whether the store takes plants. To the operator, who asks for
// ?verbose, it also tells what its acknowledgements are worth.
func ready(s *store.Store, operator bool) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
		if err := s.Ready(); err != nil {
			return &plant.Error{Code: plant.CodeStoreUnavailable, Message: err.Error()}
		}
		body := []byte(`{"status":"ready"}`)
		if operator && r.URL.Query().Has("verbose") {
			d := s.Durability()
			var err error
			if body, err = json.Marshal(readiness{"ready", d.Guarantee, append([]string{}, d.Warnings...)}); err != nil {
				return err
			}
		}
		writeJSON(w, http.StatusOK, append(body, '\n'))
		return nil
	}
}
