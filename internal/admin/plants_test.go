package admin_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

const wait = 5 * time.Minute // timeout of every wait; a wait that succeeds is short

// create returns a create of the operator.
func create(id int64, name string, tag plant.Tag) store.Create {
	return store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: tag}}, At: time.Now()}
}

// open returns the operations on a new store with plants, and the path of the store.
func open(t *testing.T, c admin.Config, plants ...store.Create) (service *admin.Service, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "plants.db")
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	if len(plants) > 0 {
		if _, err := engine.Insert(t.Context(), plants); err != nil {
			t.Fatal(err)
		}
	}
	c.Engine = engine
	if c.WritePath, err = writepath.New(t.Context(), writepath.Config{Engine: engine}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.WritePath.Close)
	if service, err = admin.New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	return service, path
}

// A page of large plants ends before its limit, and the next page has the rest.
func TestListLargePlants(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", store.PlantsBytes/2+1)
	service, _ := open(t, admin.Config{},
		create(1, large, plant.Tag{}), create(2, large, plant.Tag{}), create(3, "small", plant.Tag{}))
	first, err := service.Plants(t.Context(), admin.PageQuery{Limit: 100})
	if err != nil || len(first.Plants) != 2 || first.Next == "" {
		t.Fatalf("the first page has %d plants, next %q, %v, want 2", len(first.Plants), first.Next, err)
	}
	second, err := service.Plants(t.Context(), admin.PageQuery{Limit: 100, Cursor: first.Next})
	if err != nil || len(second.Plants) != 1 || second.Plants[0].ID != 3 || second.Next != "" {
		t.Errorf("the second page has %d plants, next %q, %v, want the plant 3", len(second.Plants), second.Next, err)
	}
}

func TestConfigWithoutEngine(t *testing.T) {
	t.Parallel()
	if _, err := admin.New(admin.Config{}); err == nil {
		t.Error("got no error")
	}
}
