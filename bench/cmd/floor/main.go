// Floor limits the rate of every other contender: net/http with a handler that reads the body and responds with a
// constant. It checks no token, parses nothing and stores nothing.
package main

import (
	"io"
	"net/http"

	"plantstore/bench/internal/plain"
)

func main() {
	plain.Main(func(plain.Flags) (http.Handler, func() error, error) {
		return http.HandlerFunc(respond), func() error { return nil }, nil
	})
}

var constant = []byte(`{"name":"Made for measuring","tag":"made"}` + "\n")

func respond(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "could not read the body", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(constant)
}
