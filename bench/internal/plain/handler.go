// Package plain is a simple plant service, the work of an afternoon. The programs that use it store the plants.
package plain

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
)

// NewPlant is the body of a request.
type NewPlant struct {
	ID   *int64  `json:"id"`
	Name *string `json:"name"`
	Tag  *string `json:"tag"`
}

// plant is the body of a response.
type plant struct {
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

// ErrExists reports that a plant with this id is stored.
var ErrExists = errors.New("a plant with this id exists")

// Insert stores a plant durably. It returns ErrExists if the id is stored.
type Insert func(ctx context.Context, id int64, name string, tag *string) error

const bodyBytesMax = 64 << 10

// Handler serves POST /plants with one call of insert a request.
func Handler(token string, insert Insert) http.Handler {
	want := []byte("Bearer " + token)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /plants", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "unknown token", http.StatusUnauthorized)
			return
		}
		var n NewPlant
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body,
			bodyBytesMax)).Decode(&n); err != nil || n.ID == nil || n.Name == nil {
			http.Error(w, "the body is not a plant", http.StatusBadRequest)
			return
		}
		switch err := insert(r.Context(), *n.ID, *n.Name, n.Tag); {
		case errors.Is(err, ErrExists):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case r.Context().Err() != nil: // the client disconnected
		case err != nil:
			slog.Error("insert", "error", err)
			http.Error(w, "could not store the plant", http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(plant{*n.Name, n.Tag})
		}
	})
	return mux
}
