package admin_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// left returns the ids of the stored plants.
func left(t *testing.T, s *admin.Service) string {
	t.Helper()
	page, err := s.Plants(t.Context(), admin.PageQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range page.Plants {
		ids = append(ids, fmt.Sprint(p.ID))
	}
	return strings.Join(ids, " ")
}

// TestErase erases each selection from the same store, after a dry run that changes nothing.
func TestErase(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)
	later, text := at.Add(time.Second), func(s string) *string { return &s }
	for name, test := range map[string]struct {
		selected admin.Erasure
		left     string
	}{
		"ids":            {admin.Erasure{IDs: []int64{3, -2, 3, 9}}, "1 4 5"},
		"creator":        {admin.Erasure{Creator: text("shop")}, "-2 5"},
		"creator's id":   {admin.Erasure{Creator: text("3")}, "-2 1 3 4"},
		"name of digits": {admin.Erasure{Creator: text("1")}, "-2 1 3 4"},
		"id as listed":   {admin.Erasure{Creator: text("id 1")}, "-2 4 5"},
		"operator":       {admin.Erasure{Creator: text("0")}, "1 3 4 5"},
		"since":          {admin.Erasure{Since: &later}, "-2 1 5"},
		"until":          {admin.Erasure{Until: &later}, "3 4"},
		"tag":            {admin.Erasure{Tag: text("tree")}, "-2 4 5"},
		"empty tag":      {admin.Erasure{Tag: text("")}, "-2 1 3 5"},
		"all conditions": {admin.Erasure{Creator: text("shop"), Since: &at, Until: &later, Tag: text("tree")}, "-2 3 4 5"},
		"none":           {admin.Erasure{Since: &later, Tag: text("none")}, "-2 1 3 4 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			batch := []store.Create{
				create(-2, "A", plant.Tag{}), create(1, "B", plant.Tagged("tree")), create(3, "C", plant.Tagged("tree")),
				create(4, "D", plant.Tagged("")), create(5, "E", plant.Tag{}),
			}
			for i := range batch {
				batch[i].At = at
			}
			batch[2].At, batch[3].At = later, later
			batch[1].By, batch[2].By, batch[3].By = 1, 1, 2 // both tokens have the name shop, one after the other
			batch[4].By = 3
			service, _ := open(t, admin.Config{}, batch...)
			for _, name := range []string{"shop", "shop", "1"} {
				n := admin.NewToken{Name: name, Scopes: []string{auth.ScopeCreate.String()}, NoExpiry: true}
				if _, err := service.Mint(t.Context(), n, audit.Origin{}); err != nil {
					t.Fatal(err)
				}
				if _, err := service.Revoke(t.Context(), admin.Revocation{Name: &n.Name}, audit.Origin{}); err != nil {
					t.Fatal(err)
				}
			}
			all := left(t, service)
			want := int64(5 - len(strings.Fields(test.left)))
			test.selected.DryRun = true
			dry, err := service.Erase(t.Context(), test.selected, audit.Origin{})
			if err != nil || dry.Plants != want || int64(len(dry.First)) != want || left(t, service) != all {
				t.Errorf("dry run: %+v, %v; want %d", dry, err, want)
			}
			test.selected.DryRun = false
			erased, err := service.Erase(t.Context(), test.selected, audit.Origin{})
			if err != nil || erased.Plants != want || erased.Next != "" || left(t, service) != test.left {
				t.Errorf("%+v, %v; left %s, want %s", erased, err, left(t, service), test.left)
			}
		})
	}
}

// TestEraseInParts erases more plants than a part has, with the largest id among them.
func TestEraseInParts(t *testing.T) {
	t.Parallel()
	batch := []store.Create{create(math.MaxInt64, "", plant.Tagged("x"))}
	for id := range int64(2 * admin.EraseMax) {
		batch = append(batch, create(id, "", plant.Tagged("x")))
	}
	service, _ := open(t, admin.Config{}, batch...)
	tag, total, parts := "x", int64(0), 0
	for e := (admin.Erasure{Tag: &tag}); ; parts++ {
		part, err := service.Erase(t.Context(), e, audit.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		total += part.Plants
		if e.Cursor = part.Next; e.Cursor == "" {
			break
		}
	}
	if total != 2*admin.EraseMax+1 || parts != 2 || left(t, service) != "" {
		t.Errorf("erased %d, left %s", total, left(t, service))
	}
}

func TestRefusedErasures(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{}, create(1, "A", plant.Tag{}))
	tag, nobody, no := "x", "nobody", "id 1x"
	now := time.Now()
	for want, e := range map[string]admin.Erasure{
		"say which plants":                 {},
		"not both":                         {IDs: []int64{1}, Tag: &tag},
		"at most 100":                      {IDs: make([]int64, admin.EraseMax+1)},
		"no credential has the name or th": {Creator: &nobody},
		`no credential has the name or the id "id 1x"`: {Creator: &no},
		"since must be before until":                   {Since: &now, Until: &now},
		"cursor must be":                               {Tag: &tag, Cursor: "AQ"},
		"ids have no cursor":                           {IDs: []int64{1}, Cursor: "AQAAAAAAAAAB"},
	} {
		if _, err := service.Erase(t.Context(), e, audit.Origin{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{}, create(1, "Acer plantanoides", plant.Tagged("tree")))
	by := audit.Origin{Actor: audit.Actor{Kind: audit.Token, ID: "7"}}
	name, tag, empty := "Acer platanoides", "shrub", ""
	for _, step := range []struct {
		correction admin.Correction
		want       string
	}{
		{admin.Correction{Name: &name}, `{"id":1,"name":"Acer platanoides","tag":"tree"}`},
		{admin.Correction{Tag: &tag}, `{"id":1,"name":"Acer platanoides","tag":"shrub"}`},
		{admin.Correction{Tag: &empty}, `{"id":1,"name":"Acer platanoides","tag":""}`},
		{admin.Correction{NoTag: true, Name: &empty}, `{"id":1,"name":""}`},
		{admin.Correction{NoTag: true, Name: &empty}, `{"id":1,"name":""}`}, // changes nothing
	} {
		r, err := service.Correct(t.Context(), 1, step.correction, by)
		if err != nil || string(r.NewPlant.AppendJSON(nil)) != step.want || r.CreatedBy != "id 7" {
			t.Errorf("got %+v, %v; want %s", r, err, step.want)
		}
	}
	page, err := service.Audit(t.Context(), admin.AuditQuery{Action: string(audit.PlantsCorrect), Limit: 100})
	if err != nil || len(page.Entries) != 4 {
		t.Errorf("%d entries, %v", len(page.Entries), err)
	}
	nul, invalid, long := "a\x00", "\xff", strings.Repeat("x", plant.BodyBytesMax)
	for want, c := range map[string]admin.Correction{
		"say what is right":    {},
		"not both":             {Tag: &tag, NoTag: true},
		"U+0000":               {Name: &nul},
		"must be UTF-8":        {Tag: &invalid},
		"at most 16777216 are": {Name: &long},
	} {
		if _, err := service.Correct(t.Context(), 1, c, by); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := service.Correct(t.Context(), 2, admin.Correction{Name: &name}, by); err == nil {
		t.Error("a plant that is not stored")
	}
}

// TestCorrectAtTheSameTime corrects a plant from two sides: each response has the content of its own request.
func TestCorrectAtTheSameTime(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{}, create(1, "Acer", plant.Tag{}))
	var sides sync.WaitGroup
	for side := range 2 {
		sides.Go(func() {
			for i := range 50 {
				name := fmt.Sprint("Acer ", side, i)
				r, err := service.Correct(t.Context(), 1, admin.Correction{Name: &name}, audit.Origin{})
				if err == nil && r.Name != name {
					t.Errorf("got %s, want %s", r.Name, name)
				}
			}
		})
	}
	sides.Wait()
}

// TestDryRunAtTheSameTime erases plants during dry runs, which must not fail.
func TestDryRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	const plants = 100
	var batch []store.Create
	var ids []int64
	for id := range int64(plants) {
		batch, ids = append(batch, create(id, "A", plant.Tag{})), append(ids, id)
	}
	service, _ := open(t, admin.Config{}, batch...)
	var erasing sync.WaitGroup
	erasing.Go(func() {
		for i := range ids {
			if _, err := service.Erase(t.Context(), admin.Erasure{IDs: ids[i : i+1]}, audit.Origin{}); err != nil {
				t.Error(err)
			}
		}
	})
	for left := int64(plants); left > 0; {
		dry, err := service.Erase(t.Context(), admin.Erasure{IDs: ids, DryRun: true}, audit.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		left = dry.Plants
	}
	erasing.Wait()
}
