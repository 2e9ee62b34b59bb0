package store

import (
	"context"
	"time"

	"plantstore/internal/plant"
)

// Row is a stored plant: a plant.Record that names its creator by id.
type Row struct {
	plant.NewPlant
	CreatedAt time.Time // whole microseconds
	CreatedBy int64     // id of the token; 0 for the operator's own commands
}

// PlantsByID implements writepath.Engine.
func (o *Operations) PlantsByID(ctx context.Context, ids []int64, bytesMax int) ([]Row, error) {
	return read(ctx, o, func(t Tables) ([]Row, error) { return t.PlantsByID(ids, bytesMax) })
}
