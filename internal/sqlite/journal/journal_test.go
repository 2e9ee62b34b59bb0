package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// randomCreates returns plants in any order.
func randomCreates(random *rand.Rand, n int) []store.Create {
	all := make([]store.Create, n)
	for i := range all {
		all[i] = store.Create{
			Plant: plant.NewPlant{ID: int64(random.Uint64()), Plant: plant.Plant{Name: strings.Repeat("é", random.IntN(200))}},
			By:    random.Int64N(5), At: time.UnixMicro(random.Int64N(1<<52) - 1<<50),
		}
		if random.IntN(2) == 0 {
			all[i].Plant.Tag = plant.Tagged(strings.Repeat("t", random.IntN(3)))
		}
	}
	return all
}

func pointers(all []store.Create) (p []*store.Create) {
	for i := range all {
		p = append(p, &all[i])
	}
	return p
}

func TestPlants(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 12 {
		want := randomCreates(random, n)
		c := Commit{Changes: AppendPlants(nil, pointers(want), int64(n), n%2 == 0)}
		got, digests, events, err := c.Plants()
		if err != nil || digests != int64(n) || events != (n%2 == 0) {
			t.Fatalf("%d plants: %d, %v, %v", n, digests, events, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(plant.Tag{})); diff != "" {
			t.Fatalf("%d plants (-want +got):\n%s", n, diff)
		}
		if _, ok := c.Rows(); ok {
			t.Error("created plants are rows")
		}
		for cut := range c.Changes {
			short := Commit{Changes: c.Changes[:cut]}
			if _, _, _, err := short.Plants(); !errors.Is(err, ErrForm) {
				t.Fatalf("the first %d of %d bytes: %v", cut, len(c.Changes), err)
			}
		}
	}
}

// someCommits returns consecutive commits and the history before them.
func someCommits(random *rand.Rand, first int64, n int) (before History, all []Commit) {
	for i := range before {
		before[i] = byte(random.Uint32())
	}
	at := time.UnixMicro(1_800_000_000_000_000).UTC()
	for i := range n {
		at = at.Add(time.Duration(random.Int64N(1e6)) * time.Microsecond)
		c := Commit{Number: first + int64(i), At: at}
		if c.Changes = ChangedRows([]byte("a changeset")); i%3 > 0 {
			c.Changes = AppendPlants(nil, pointers(randomCreates(random, i)), 0, false)
		}
		all = append(all, c)
	}
	return before, all
}

// mustRead returns the commits of a segment.
func mustRead(t testing.TB, content []byte) (s Segment, all []Commit) {
	t.Helper()
	s, err := Read(bytes.NewReader(content), func(c *Commit, _ History) error {
		all = append(all, Commit{c.Number, c.At, bytes.Clone(c.Changes)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, all
}

func TestSegment(t *testing.T) {
	t.Parallel()
	const prefix = "plantstore."
	before, commits := someCommits(rand.New(rand.NewPCG(3, 4)), 7, 20)
	var e Encoder
	whole, content, err := e.Encode("0123", "0123456789abcdef", before, commits)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.Clone(content)
	read, got := mustRead(t, content)
	if diff := cmp.Diff(commits, got); diff != "" || read != whole {
		t.Errorf("read %+v, want %+v; commits (-want +got):\n%s", read, whole, diff)
	}
	named, ok := ParseName(prefix, whole.Name(prefix))
	if !ok || named.Name(prefix) != whole.Name(prefix) || named.Last != 26 || named.Timeline != whole.Timeline {
		t.Errorf("parsed %q as %+v, %v", whole.Name(prefix), named, ok)
	}
	for _, other := range []string{"", "plantstore-20260102T030405Z.db", whole.Name("other."), whole.Name(prefix) + "x"} {
		if s, ok := ParseName(prefix, other); ok {
			t.Errorf("parsed %q as %+v", other, s)
		}
	}

	var parts [][]byte
	for i := range commits {
		_, part, err := e.Encode("0123", "0123456789abcdef", before, commits[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, bytes.Clone(part))
		before = before.After(&commits[i])
	}
	merged, content, err := e.Merge(parts)
	if err != nil || merged != whole {
		t.Fatalf("merged %+v, %v, want %+v", merged, err, whole)
	}
	if _, got := mustRead(t, content); cmp.Diff(commits, got) != "" {
		t.Error("the merged segment has other commits")
	}
	commits[0], commits[1] = commits[1], commits[0]
	if _, _, err := e.Encode("0123", "0123456789abcdef", before, commits); err == nil {
		t.Error("encoded commits whose times go back")
	}
	parts[3], parts[4] = parts[4], parts[3]
	if _, _, err := e.Merge(parts); !errors.Is(err, ErrDamaged) {
		t.Errorf("merged segments that do not follow each other: %v", err)
	}
	large := []Commit{{Number: 1, At: commits[0].At, Changes: make([]byte, changesBytesMax+1)}}
	if _, _, err := e.Encode("0123", "0123456789abcdef", before, large); err == nil {
		t.Error("encoded a commit that no reader accepts")
	}
}

// TestDamagedSegment changes each byte of a segment.
func TestDamagedSegment(t *testing.T) {
	t.Parallel()
	before, commits := someCommits(rand.New(rand.NewPCG(5, 6)), 1, 3)
	var e Encoder
	_, content, err := e.Encode("0123", "0123456789abcdef", before, commits)
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		damaged := bytes.Clone(content)
		damaged[i] ^= 1 << (i % 8)
		var got []Commit
		_, err := Read(bytes.NewReader(damaged), func(c *Commit, _ History) error {
			got = append(got, Commit{c.Number, c.At, bytes.Clone(c.Changes)})
			return nil
		})
		if err == nil && cmp.Diff(commits, got) != "" {
			t.Errorf("byte %d: read other commits without an error", i)
		}
		if _, err := Read(bytes.NewReader(content[:i]), func(*Commit, History) error { return nil }); err == nil {
			t.Errorf("read the first %d of %d bytes without an error", i, len(content))
		}
	}
}

// TestSegmentTimes reads segments whose times go back or are not those of their first lines.
func TestSegmentTimes(t *testing.T) {
	t.Parallel()
	const from, to = 1_800_000_000_000_000, 1_800_000_000_000_007
	for _, test := range []struct {
		name     string
		from, to int64    // times in the first line
		since    [3]int64 // by commit
		whole    bool
	}{
		{"whole", from, to, [3]int64{from, 0, 7}, true},
		{"back", from, to, [3]int64{from, 8, -1}, false},
		{"back by an overflow", from, 7, [3]int64{from, math.MaxInt64, math.MaxInt64 - from + 9}, false},
		{"before 1970", -7, 0, [3]int64{-7, 0, 7}, false},
		{"an earlier first line", from - 1, to, [3]int64{from, 0, 7}, false},
		{"a later first line", from + 1, to, [3]int64{from, 0, 7}, false},
		{"an earlier end", from, to - 1, [3]int64{from, 0, 7}, false},
		{"a later end", from, to + 1, [3]int64{from, 0, 7}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := Segment{
				Format: segmentFormat, First: 1, Last: int64(len(test.since)), Before: History{}.String(),
				From: time.UnixMicro(test.from).UTC(), To: time.UnixMicro(test.to).UTC(),
			}
			var history History
			var commits []byte
			at := int64(0)
			for i, since := range test.since {
				at += since
				history = history.After(&Commit{Number: int64(i) + 1, At: time.UnixMicro(at)})
				commits = append(commits, 0) // bytes of changes
				commits = binary.AppendVarint(commits, since)
			}
			s.After = history.String()
			var e Encoder
			if err := e.begin(&s); err != nil {
				t.Fatal(err)
			}
			if _, err := e.zstd.Write(commits); err != nil {
				t.Fatal(err)
			}
			content, err := e.end()
			if err != nil {
				t.Fatal(err)
			}
			_, err = Read(bytes.NewReader(content), func(*Commit, History) error { return nil })
			if test.whole && err != nil || !test.whole && !errors.Is(err, ErrDamaged) {
				t.Errorf("read: %v", err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	before, commits := someCommits(rand.New(rand.NewPCG(7, 8)), 1, 4)
	var e Encoder
	_, content, err := e.Encode("0123", "0123456789abcdef", before, commits)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		var times []time.Time
		s, err := Read(bytes.NewReader(content), func(c *Commit, _ History) error {
			_, _, _, _ = c.Plants()
			times = append(times, c.At)
			return nil
		})
		if !slices.IsSortedFunc(times, time.Time.Compare) ||
			err == nil && !(times[0].Equal(s.From) && times[len(times)-1].Equal(s.To)) {
			t.Errorf("read a segment of %v to %v with the times %v", s.From, s.To, times)
		}
	})
}

func FuzzPlants(f *testing.F) {
	f.Add(AppendPlants(nil, pointers(randomCreates(rand.New(rand.NewPCG(9, 10)), 3)), 5, true))
	f.Fuzz(func(t *testing.T, changes []byte) {
		c := Commit{Changes: changes}
		created, digests, events, err := c.Plants()
		if err != nil {
			return
		}
		again := Commit{Changes: AppendPlants(nil, pointers(created), digests, events)}
		if got, _, _, err := again.Plants(); err != nil || cmp.Diff(created, got, cmp.AllowUnexported(plant.Tag{})) != "" {
			t.Errorf("%x: encoded again, it has other plants: %v", changes, err)
		}
	})
}
