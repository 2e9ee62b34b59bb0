package sqlite_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestDamagedPlant changes one column of a row, or its type, as a disk does: no read returns the content, no create of
// the plant is acknowledged or refused as a conflict, and the other plants are as before.
func TestDamagedPlant(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		"name = 'Rosb'", "name = ''", "tag = 'shruc'", "tag = NULL", "tag = ''", "created_at = created_at + 1",
		"created_by = 2", "digest = digest + 1", "name = cast(x'526f73ff' AS TEXT)",
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			testDamagedPlant(t, "UPDATE plants SET "+change+" WHERE id = 2")
		})
	}
}

func testDamagedPlant(t *testing.T, change string) {
	t.Helper()
	ctx, path, log := t.Context(), filepath.Join(t.TempDir(), "plantstore.db"), &bytes.Buffer{}
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true, Log: slog.New(slog.NewTextHandler(log, nil))})
	defer func() { must(t, e.Close()) }()
	_, err := e.SetWebhooks(ctx, []string{"https://plants.example/a"}, audit.Origin{})
	must(t, err)
	var batch []store.Create
	for id := range int64(4) {
		batch = append(batch, store.Create{At: time.UnixMicro(1000 + id), By: 1, Plant: plant.NewPlant{
			ID: id, Plant: plant.Plant{Name: "Rosa", Tag: plant.Tagged("shrub")},
		}})
	}
	must(t, sqlitetest.Insert(ctx, e, batch))
	sqlitetest.Exec(t, path, change)

	got := map[string]string{}
	read := func(what string, err error, ids ...any) {
		if got[what] = fmt.Sprint(ids...); err != nil {
			got[what] = fmt.Sprint(err.(*plant.Error).Code, " ", err) //nolint:errorlint,forcetypeassert // else a panic
		}
	}
	_, err = e.Get(ctx, 2)
	read("Get", err)
	records, err := e.List(ctx, store.Query{Limit: 10})
	for i, r := range records {
		if r.Damaged != (i == 2) || (r.Damaged && r != plant.Record{NewPlant: plant.NewPlant{ID: 2}, Damaged: true}) {
			t.Errorf("List: %+v", r)
		}
	}
	read("List", err, len(records))
	var scanned []any
	_, _, err = e.Scan(ctx, 0, 10, func(p *store.Scanned) { scanned = append(scanned, p.ID, p.Damaged) })
	read("Scan", err, scanned...)
	for _, err = range e.Plants(ctx) {
		if err != nil {
			break
		}
	}
	read("Plants", err)
	rows, err := e.PlantsByID(ctx, []int64{1, 2, 3}, 1<<20)
	read("PlantsByID", err, rows[0].ID, len(rows))
	outcomes, err := e.Insert(ctx, batch[1:])
	must(t, err)
	read("replay", outcomes[1].Conflict, outcomes[0].Replayed, outcomes[2].Replayed)
	batch[2].Plant.Name = "other"
	outcomes, err = e.Insert(ctx, batch[2:3])
	must(t, err)
	read("conflict", outcomes[0].Conflict)
	taken, err := e.TakeDeliveries(ctx, nil, store.Claim{Most: map[int64]int{1: 10}, Lease: time.Minute})
	var delivered []any
	for _, d := range taken {
		delivered = append(delivered, d.Plant.ID)
	}
	read("TakeDeliveries", err, delivered...)

	const refused = "50002 plant 2 is damaged in the store; the operator can restore it from a backup"
	want := map[string]string{
		"Get": refused, "List": "4", "Scan": "0 false 1 false 2 true 3 false", "Plants": refused, "PlantsByID": "1 2",
		"replay": refused, "conflict": refused, "TakeDeliveries": "0 1 3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	const line = `level=ERROR msg="a stored plant does not match its digest; ` +
		`run plantstore verify, and restore a backup" plant=2`
	if lines := strings.Count(log.String(), line); lines != 1 {
		t.Errorf("the log has %d lines about the plant, want 1:\n%s", lines, log)
	}
}
