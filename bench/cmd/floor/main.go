// Floor is what every other contender is measured against: net/http as it
// comes, with a handler that reads the body and answers a constant. It checks
// no token, understands nothing and stores nothing.
package main

import (
	"io"
	"net/http"

	"plantstore/bench/internal/plain"
)

func main() {
	plain.Main(func(plain.Flags) (http.Handler, func() error, error) {
		return http.HandlerFunc(answer), func() error { return nil }, nil
	})
}

var constant = []byte(`{"name":"Made for measuring","tag":"made"}` + "\n")

func answer(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(constant)
}
