package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/store"
)

// The memory of a count is bounded: rare tags and further days are counted together.
func TestCountsOfManyTagsAndDays(t *testing.T) {
	t.Parallel()
	const tags, days = 70_000, 41_000
	engine := many{tags: tags, days: days, read: make(chan struct{})}
	service, err := admin.New(admin.Config{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	if _, _, err := service.Counts(0); err != nil {
		t.Fatal(err)
	}
	<-engine.read
	var got *admin.Counts
	for deadline := time.Now().Add(wait); got == nil; {
		if got, _, err = service.Counts(time.Hour); err != nil || time.Now().After(deadline) {
			t.Fatalf("no counts: %v", err)
		}
	}
	if got.Exact || len(got.Tags) != admin.TagsMax || got.Tags[0] != (admin.TagCount{Tag: "frequent", Plants: tags}) {
		t.Errorf("exact %t, %d tags, the first %+v", got.Exact, len(got.Tags), got.Tags[0])
	}
	sum := got.Untagged + got.OtherTags
	for _, tag := range got.Tags {
		sum += tag.Plants
	}
	if want := int64(2 * tags); sum != want || got.Plants != want {
		t.Errorf("the tags have %d plants, all %d, want %d", sum, got.Plants, want)
	}
	sum = got.OtherDays
	for _, day := range got.Days {
		sum += day.Plants
	}
	if len(got.Days) != 40_000 || got.OtherDays == 0 || sum != got.Plants {
		t.Errorf("%d days, %d plants of other days, %d of all, want 40000 days and %d plants",
			len(got.Days), got.OtherDays, sum, got.Plants)
	}
}

// many is an engine with a plant of each tag and day, each beside one of a frequent tag.
type many struct {
	admin.Engine
	tags, days int64
	read       chan struct{} // closed when the last plant is read
}

func (m many) State(context.Context) (store.State, error) {
	return store.State{Plants: 2 * m.tags}, nil
}

func (m many) Scan(
	_ context.Context, from int64, rows int, visit func(*store.Scanned),
) (next int64, more bool, err error) {
	for next = max(from, 0); next < 2*m.tags && rows > 0; next, rows = next+1, rows-1 {
		tag := "frequent"
		if next%2 == 0 {
			tag = fmt.Sprint("tag ", next)
		}
		visit(&store.Scanned{ID: next, Tag: []byte(tag), CreatedAt: next % m.days * (24 * time.Hour).Microseconds()})
	}
	if next == 2*m.tags {
		close(m.read)
	}
	return next, next < 2*m.tags, nil
}
