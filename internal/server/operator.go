package server

import (
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

// ready answers whether the store takes plants.
func ready(s *store.Store) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ auth.Principal) error {
		if err := s.Ready(); err != nil {
			return &plant.Error{Code: plant.CodeStoreUnavailable, Message: err.Error()}
		}
		writeJSON(w, http.StatusOK, []byte(`{"status":"ready"}`+"\n"))
		return nil
	}
}
