package importer_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// dryRun runs a dry run on a store with some plants.
func dryRun(t *testing.T, file string, stored ...store.Create) (imported, importer.Result) {
	t.Helper()
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "plants.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if _, err := engine.Insert(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	var result importer.Result
	got := run(t.Context(), t, file, func(c *importer.Config) {
		c.DryRun, c.ShowStored, c.OnConflict = true, true, importer.Fail
		c.Sort = &importer.Sorting{Dir: t.TempDir(), Memory: 1 << 20}
		c.Stored = func(ids []int64, bytesMax int) ([]store.Row, error) {
			return engine.PlantsByID(t.Context(), ids, bytesMax)
		}
		c.Insert = func([]store.Create) ([]store.Outcome, error) {
			t.Error("a dry run stored plants")
			return nil, nil
		}
		config := *c
		config.Rejected = func(importer.Reject) error { return nil }
		config.Progress = func(importer.Progress) {}
		if result, err = importer.Run(t.Context(), config); err != nil {
			t.Error(err)
		}
	})
	return got, result
}

func stored(id int64, name string, tag plant.Tag) store.Create {
	return store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: tag}}}
}

// A dry run counts what an import would do, and compares rows of the file with each other too. Batches have two rows.
func TestDryRun(t *testing.T) {
	t.Parallel()
	const file = "id,name,tag\n5,Acer,tree\n1,Rosa,shrub\n2,Rosa,shrub\n5,Acer,\nx,Tilia,\n5,Acer,tree\n" +
		"3,Tilia,\n5,Ulmus,tree\n"
	got, result := dryRun(t, file, stored(1, "Rosa", plant.Tagged("shrub")), stored(2, "Bellis", plant.Tag{}))
	want := importer.Counts{Created: 2, Existing: 2, Conflicting: 3, Invalid: 1}
	if got.counts != want || got.err != nil || result.Counts != want {
		t.Errorf("got %+v, %v; want %+v", got.counts, got.err, want)
	}
	if diff := cmp.Diff([]string{
		`6 "x,Tilia," id must be a 64-bit integer in decimal digits; got "x" false`,
		`4 "2,Rosa,shrub" id 2: the store has the name "Bellis", this row "Rosa"; ` +
			`the store has the tag none, this row "shrub" true`,
		`5 "5,Acer," id 5: an earlier row has the tag "tree", this row none true`,
		`9 "5,Ulmus,tree" id 5: an earlier row has the name "Acer", this row "Ulmus" true`,
	}, got.rejects); diff != "" {
		t.Errorf("rejects (-want +got):\n%s", diff)
	}
	if text := fmt.Sprint(result.First); text != fmt.Sprint([]plant.NewPlant{
		stored(5, "Acer", plant.Tagged("tree")).Plant, stored(1, "Rosa", plant.Tagged("shrub")).Plant,
		stored(2, "Rosa", plant.Tagged("shrub")).Plant, stored(5, "Acer", plant.Tag{}).Plant,
		stored(5, "Acer", plant.Tagged("tree")).Plant,
	}) {
		t.Errorf("first plants: got %s", text)
	}
}

// The reason of a conflict shows both names, so that a person sees the difference, if the caller may see them.
func TestConflictReasons(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for _, row := range []struct{ stored, sent, want string }{
		{"Rosa", "Acer", `the store has the name "Rosa", this row "Acer"`},
		{"Ros\u00e9", "Rose\u0301", `the store has the name "Ros\u00e9", this row "Rose\u0301"`},
		{"Acer", "Acer ", `the store has the name "Acer", this row "Acer "`},
		{"Acer", "Acer\u200b", `the store has the name "Acer", this row "Acer\u200b"`},
		{long + "a", long + "b", `the store has the name …"xxxxxxxxxxxxxxxxxxxxa", this row …"xxxxxxxxxxxxxxxxxxxxb"`},
		{"é" + long, "è" + long, `the store has the name "é` + long[:78] + `"…, this row "è` + long[:78] + `"…`},
	} {
		for _, dry := range []bool{false, true} {
			got := run(t.Context(), t, "id,name\n1,"+row.sent+"\n", func(c *importer.Config) {
				insert := c.Insert
				if _, err := insert([]store.Create{stored(1, row.stored, plant.Tag{})}); err != nil {
					t.Fatal(err)
				}
				c.ShowStored, c.DryRun = true, dry
				c.Sort = &importer.Sorting{Dir: t.TempDir(), Memory: 1 << 20}
				c.Stored = func([]int64, int) ([]store.Row, error) {
					return []store.Row{{NewPlant: stored(1, row.stored, plant.Tag{}).Plant}}, nil
				}
			})
			want := fmt.Sprintf("2 %q id 1: %s true", "1,"+row.sent, row.want)
			if len(got.rejects) != 1 || got.rejects[0] != want {
				t.Errorf("dry %t: got %q, want %q", dry, got.rejects, want)
			}
		}
	}
}

// What is found comes before the rows, and again after the last one if members were ignored.
func TestFound(t *testing.T) {
	t.Parallel()
	var found []string
	run(t.Context(), t, `{"id":1,"name":"A","Tag":"x"}`+"\n"+`{"id":2,"name":"B","Tag":"y"}`, func(c *importer.Config) {
		c.Options = dump.Options{}
		c.Found = func(f dump.Found) { found = append(found, f.String()) }
	})
	if diff := cmp.Diff([]string{"UTF-8, JSON Lines", "UTF-8, JSON Lines; ignored: Tag in 2 rows"}, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
