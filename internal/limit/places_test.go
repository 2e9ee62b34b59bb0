package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/limit"
)

// entry is a request for a place.
type entry struct {
	leave func()
	err   error
	ended bool
}

func (e *entry) entered() bool { return e.ended && e.err == nil }

func (e *entry) refused(err error) bool { return e.ended && errors.Is(e.err, err) }

// enter starts a request, and waits until it has a place, is refused or waits.
func enter(ctx context.Context, p *limit.Places[int], key int) *entry {
	e := &entry{}
	go func() { // ends with a place, or with ctx
		e.leave, e.err = p.Enter(ctx, key)
		e.ended = true
	}()
	synctest.Wait()
	return e
}

// Keys with many requests have a few places, and another key still finds one. The others wait, and are served in turns.
func TestPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPlaces[int](5, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		const most = 16
		var a, b [most]*entry
		for i := range most {
			a[i], b[i] = enter(ctx, p, 1), enter(ctx, p, 2)
		}
		c := enter(ctx, p, 3)
		if !a[1].entered() || a[2].ended || !b[1].entered() || b[2].ended || !c.entered() {
			t.Errorf("got %+v, %+v and %+v, want two places of each of the first keys, and one of the third", a[1], a[2], c)
		}
		if e := enter(ctx, p, 1); !e.refused(limit.ErrKeyFull) {
			t.Errorf("a further request of the first key: got %+v, want %v", e, limit.ErrKeyFull)
		}
		d := enter(ctx, p, 4)
		if d.ended {
			t.Errorf("the fourth key: got %+v, want it to wait", d)
		}
		a[0].leave()
		synctest.Wait()
		if !d.entered() || a[2].ended {
			t.Errorf("the free place: got %+v, want it to go to the key without one", d)
		}
		d.leave()
		synctest.Wait()
		if !a[2].entered() {
			t.Error("the next free place is not used")
		}
		var others [100 - 3]*entry
		for i := range others {
			others[i] = enter(ctx, p, 10+i)
		}
		if e := enter(ctx, p, 5); !e.refused(limit.ErrFull) {
			t.Errorf("more keys than may wait: got %+v, want %v", e, limit.ErrFull)
		}
		<-ctx.Done()
		synctest.Wait()
		if !b[2].refused(limit.ErrKeyFull) || !others[0].refused(limit.ErrFull) {
			t.Errorf("after the end of the context: got %+v and %+v", b[2], others[0])
		}
		for _, e := range []*entry{a[1], a[2], b[0], b[1], c} {
			e.leave()
		}
		if n := p.Keys(); n != 0 {
			t.Errorf("%d keys without a request, want 0", n)
		}
	})
}
