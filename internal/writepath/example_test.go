package writepath_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/writepath"
)

// Create returns when the plant is on stable storage. A second create with the same content is a replay, and one with
// other content is a conflict.
func Example() {
	dir, err := os.MkdirTemp("", "plantstore-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	engine, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "plantstore.db"), Server: true})
	if err != nil {
		panic(err)
	}
	s, err := writepath.New(ctx, writepath.Config{Engine: engine})
	if err != nil {
		panic(err)
	}

	by := auth.Principal{TokenID: 1, Name: "gardener", Scopes: auth.ScopeCreate}
	fir := plant.NewPlant{ID: 7159, Plant: plant.Plant{Name: "Abies balsamea", Tag: plant.Tagged("tree")}}
	for range 2 {
		replayed, err := s.Create(nil, by, fir)
		fmt.Println("replayed:", replayed, "error:", err)
	}
	fir.Name = "Abies alba"
	_, err = s.Create(nil, by, fir)
	fmt.Println("error:", err)

	s.Close()
	if err := engine.Close(); err != nil {
		panic(err)
	}
	// Output:
	// replayed: false error: <nil>
	// replayed: true error: <nil>
	// error: a plant with this id is stored with a different name
}
