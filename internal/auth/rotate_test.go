package auth_test

import (
	"reflect"
	"testing"
	"time"

	"plantstore/internal/auth"
)

func TestRotate(t *testing.T) {
	t.Parallel()
	const overlap = time.Hour
	created := noon.Add(-30 * 24 * time.Hour)
	end := noon.Add(overlap)
	endless := auth.Token{ID: 1, Name: "a", Scopes: auth.ScopeCreate, CreatedAt: created}
	expiresAt := func(t auth.Token, at time.Time) auth.Token { t.ExpiresAt = at; return t }
	revoked := func(t auth.Token) auth.Token { t.RevokedAt = created; return t }
	withID := func(t auth.Token, id int64) auth.Token { t.ID = id; return t }
	fresh := auth.Token{Name: "a", Hash: auth.HashOf("fresh"), CreatedAt: noon}
	successor := fresh
	successor.Scopes = auth.ScopeCreate
	for _, row := range []struct {
		name   string
		tokens []auth.Token
		fresh  auth.Token
		want   auth.Rotation
	}{
		{"no token", nil, fresh, auth.Rotation{}},
		{"revoked", []auth.Token{revoked(endless)}, fresh, auth.Rotation{}},
		{"expired", []auth.Token{expiresAt(endless, noon)}, fresh, auth.Rotation{}},
		{"without expiry", []auth.Token{endless}, fresh, auth.Rotation{
			Old: endless, New: successor, Ended: []auth.Token{expiresAt(endless, end)},
		}},
		{"the same lifetime", []auth.Token{expiresAt(endless, noon.Add(2*time.Hour))}, fresh, auth.Rotation{
			Old:   expiresAt(endless, noon.Add(2*time.Hour)),
			New:   expiresAt(successor, noon.Add(30*24*time.Hour+2*time.Hour)),
			Ended: []auth.Token{expiresAt(endless, end)},
		}},
		{"with its own expiry", []auth.Token{endless}, expiresAt(fresh, noon.Add(time.Minute)), auth.Rotation{
			Old: endless, New: expiresAt(successor, noon.Add(time.Minute)), Ended: []auth.Token{expiresAt(endless, end)},
		}},
		{"expires with the overlap", []auth.Token{expiresAt(endless, end)}, expiresAt(fresh, end), auth.Rotation{
			Old: expiresAt(endless, end), New: expiresAt(successor, end),
		}},
		{"the newest valid one", []auth.Token{endless, withID(endless, 2), revoked(withID(endless, 3))}, fresh, auth.Rotation{
			Old: withID(endless, 2), New: successor,
			Ended: []auth.Token{expiresAt(endless, end), expiresAt(withID(endless, 2), end)},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, ok := auth.Rotate(row.tokens, row.fresh, overlap)
			if !reflect.DeepEqual(got, row.want) || ok != (row.want.Old.ID != 0) {
				t.Errorf("got %t, %+v, want %+v", ok, got, row.want)
			}
		})
	}
}
