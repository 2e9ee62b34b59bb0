package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

const issuer = "https://login.example"

// subjectNamed returns a subject with another name than its identifier.
func subjectNamed(subject string) auth.Token {
	t := auth.NewSubject(issuer, subject, createdAt)
	t.Name = "name of " + subject
	return t
}

func mustPutSubject(t testing.TB, e Engine, subject auth.Token) auth.Token {
	t.Helper()
	stored, err := e.PutSubject(t.Context(), subject, 100)
	if err != nil {
		t.Fatalf("PutSubject(%q): %v", subject.Identifier, err)
	}
	return stored
}

func mustRevokeIdentity(t testing.TB, e Engine, identity auth.Token) auth.Token {
	t.Helper()
	stored, err := e.RevokeIdentity(t.Context(), identity, 100, operator)
	if err != nil {
		t.Fatalf("RevokeIdentity(%q): %v", identity.Identifier, err)
	}
	return stored
}

func testSubjects(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	token := mustCreateToken(t, e, token("a", createdAt))
	before := mustState(t, e)
	a := mustPutSubject(t, e, subjectNamed("a"))
	want := subjectNamed("a")
	want.ID = a.ID
	equal(t, "stored subject", a, want)
	if a.ID == token.ID || a.ID == 0 {
		t.Errorf("the subject has the id %d, and the token %d", a.ID, token.ID)
	}
	again := subjectNamed("a")
	again.Name, again.CreatedAt = "another name", createdAt.Add(time.Hour)
	equal(t, "the same subject from another engine", mustPutSubject(t, other, again), a)
	otherIssuer := auth.NewSubject("https://other.example", "a", createdAt)
	otherIssuer = mustPutSubject(t, other, otherIssuer)
	equal(t, "tokens", mustTokens(t, e), []auth.Token{token, a, otherIssuer})
	equal(t, "state after subjects", mustState(t, e).TokenChanges, before.TokenChanges)

	if _, err := e.PutSubject(t.Context(), subjectNamed("b"), 2); !errors.Is(err, store.ErrTooManySubjects) {
		t.Errorf("a subject beyond the limit: %v, want %v", err, store.ErrTooManySubjects)
	}
	if stored, err := e.PutSubject(t.Context(), subjectNamed("a"), 2); err != nil || stored != a {
		t.Errorf("a known subject at the limit: %+v, %v", stored, err)
	}

	c := create(1, "Rosa", plant.Tag{})
	c.By = a.ID
	mustInsert(t, e, c)
	equal(t, "creator", mustGet(t, other, 1).CreatedBy, a.Name)
	if err := e.MarkUsed(t.Context(), []auth.Use{{TokenID: a.ID, At: createdAt.Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}

	revoked := subjectNamed("a")
	revoked.RevokedAt = createdAt.Add(time.Minute)
	a.RevokedAt, a.LastUsedAt = revoked.RevokedAt, createdAt.Add(time.Hour)
	equal(t, "revoked subject", mustRevokeIdentity(t, e, revoked), a)
	if mustState(t, other).TokenChanges == before.TokenChanges {
		t.Error("a revocation changes no state")
	}
	revoked.RevokedAt = createdAt
	equal(t, "an earlier revocation", mustRevokeIdentity(t, e, revoked), a)
	revoked.RevokedAt = createdAt.Add(time.Hour)
	a.RevokedAt = revoked.RevokedAt
	equal(t, "a later revocation", mustRevokeIdentity(t, e, revoked), a)
	unseen := auth.NewSubject(issuer, "unseen", createdAt)
	unseen.RevokedAt = createdAt
	unseen.ID = mustRevokeIdentity(t, e, unseen).ID
	equal(t, "tokens after revocations", mustTokens(t, other), []auth.Token{token, a, otherIssuer, unseen})
}

// testSubjectsAtOnce shows that a subject is stored once.
func testSubjectsAtOnce(t *testing.T, s Store) {
	var wg sync.WaitGroup
	ids := make(chan int64, 8)
	for range 4 {
		e := open(t, s)
		for range 2 {
			wg.Go(func() {
				stored, err := e.PutSubject(t.Context(), subjectNamed("a"), 100)
				if err != nil {
					t.Error(err)
				}
				ids <- stored.ID
			})
		}
	}
	wg.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		equal(t, "id", id, first)
	}
}

// testSubjectsAreNoTokens shows that subjects and revoked JWTs with the name of a token change no token.
func testSubjectsAreNoTokens(t *testing.T, s Store) {
	e := open(t, s)
	subject := subjectNamed("a")
	subject.Name = "first"
	subject = mustPutSubject(t, e, subject)
	jwt := mustRevokeIdentity(t, e, auth.NewRevokedJWT(issuer, "first", createdAt))
	first := []auth.Token{token("first", createdAt)}
	if created, err := e.CreateFirstTokens(t.Context(), first, operator); err != nil || !created {
		t.Errorf("the first token beside subjects: %v, %v", created, err)
	}
	for _, which := range []store.Selector{{ID: subject.ID}, {ID: jwt.ID}, {Hash: subject.Hash}, {Name: "a"}} {
		if _, err := e.RevokeTokens(t.Context(), which, createdAt, operator); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("revoke %+v: %v, want %v", which, err, store.ErrNotFound)
		}
	}
	if _, _, err := e.RotateToken(t.Context(), token("first", createdAt), 0, operator); err != nil {
		t.Error(err)
	}
	revoked, err := e.RevokeTokens(t.Context(), store.Selector{Name: "first"}, createdAt, operator)
	if err != nil || len(revoked) != 2 {
		t.Errorf("revoke the name: %+v, %v, want two tokens", revoked, err)
	}
	equal(t, "the subject and the JWT", mustTokens(t, e)[:2], []auth.Token{subject, jwt})
}

// testPrunedSubjects shows which subjects PruneSubjects removes, and that a removed one can return.
func testPrunedSubjects(t *testing.T, s Store) {
	const month = auth.JWTLifetimeMax
	e, other := open(t, s), open(t, s)
	at := createdAt.Add(4 * month)
	kept := []auth.Token{mustCreateToken(t, e, token("old token", createdAt))}
	old := mustPutSubject(t, e, subjectNamed("old"))
	c := create(1, "Rosa", plant.Tag{})
	c.By = old.ID
	mustInsert(t, e, c)
	used := mustPutSubject(t, e, subjectNamed("used"))
	used.LastUsedAt = createdAt.Add(3 * month)
	lastUsed := mustPutSubject(t, e, subjectNamed("used before"))
	lastUsed.LastUsedAt = createdAt.Add(3*month - time.Second)
	if err := e.MarkUsed(t.Context(), []auth.Use{
		{TokenID: used.ID, At: used.LastUsedAt}, {TokenID: lastUsed.ID, At: lastUsed.LastUsedAt},
	}); err != nil {
		t.Fatal(err)
	}
	revoked := subjectNamed("revoked")
	revoked.RevokedAt = at.Add(-month - 2*auth.JWTLeeway) // its JWTs may be valid
	revoked = mustRevokeIdentity(t, e, revoked)
	longAgo := subjectNamed("revoked long ago")
	longAgo.RevokedAt = revoked.RevokedAt.Add(-time.Second)
	longAgo = mustRevokeIdentity(t, e, longAgo)
	jwt := mustRevokeIdentity(t, e, auth.NewRevokedJWT(issuer, "jti", createdAt))
	newest := mustPutSubject(t, e, subjectNamed("newest")) // has the highest id
	before := mustState(t, other)

	prune := func(limit int) ([]auth.Token, error) {
		return e.PruneSubjects(t.Context(), store.SubjectPrune{UnusedSince: createdAt.Add(3 * month), At: at, Limit: limit},
			operator)
	}
	var removed []auth.Token
	for range 2 {
		some, err := prune(2)
		if err != nil {
			t.Fatal(err)
		}
		removed = append(removed, some...)
	}
	equal(t, "removed", removed, []auth.Token{old, lastUsed, longAgo})
	if _, err := prune(2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a third call: %v, want %v", err, store.ErrNotFound)
	}
	equal(t, "tokens", mustTokens(t, other), append(kept, used, revoked, jwt, newest))
	if mustState(t, other).TokenChanges == before.TokenChanges {
		t.Error("a removal changes no state")
	}
	equal(t, "creator of a removed subject's plant", mustGet(t, other, 1).CreatedBy, fmt.Sprint("id ", old.ID))
	rows := auditRows(t, e)
	last := auditEntry(t, rows[len(rows)-1])
	if last.Action != audit.TokenPrune || last.Actor != operator.Actor || !last.Time.Equal(at) {
		t.Errorf("the last entry is %+v", last)
	}
	equal(t, "details", last.Details, []audit.Detail{
		{Key: "identifier", Value: "revoked long ago"},
		{Key: "issuer", Value: issuer},
		{Key: "kind", Value: "subject"},
		{Key: "token_id", Value: fmt.Sprint(longAgo.ID)},
		{Key: "token_name", Value: longAgo.Name},
	})
	if again := mustPutSubject(t, other, subjectNamed("old")); again.ID <= newest.ID {
		t.Errorf("the subject returns with the id %d, which is not new", again.ID)
	}
}

func testRevokedJWTs(t *testing.T, s Store) {
	e := open(t, s)
	revoke := func(jti string, at time.Time) auth.Token {
		t.Helper()
		want := auth.NewRevokedJWT(issuer, jti, at)
		stored := mustRevokeIdentity(t, e, want)
		want.ID = stored.ID
		equal(t, "revoked JWT", stored, want)
		return stored
	}
	a := revoke("a", createdAt)
	equal(t, "the same again", mustRevokeIdentity(t, e, auth.NewRevokedJWT(issuer, "a", createdAt)), a)
	b := revoke("b", createdAt.Add(time.Hour))
	_, err := e.RevokeIdentity(t.Context(), auth.NewRevokedJWT(issuer, "c", createdAt), 2, operator)
	if !errors.Is(err, store.ErrTooManyJWTs) {
		t.Errorf("a JWT beyond the limit: %v, want %v", err, store.ErrTooManyJWTs)
	}
	equal(t, "tokens", mustTokens(t, e), []auth.Token{a, b})

	// At this time the first one has expired.
	c := auth.NewRevokedJWT(issuer, "c", a.ExpiresAt.Add(time.Minute))
	stored, err := e.RevokeIdentity(t.Context(), c, 2, operator)
	if err != nil {
		t.Fatal(err)
	}
	c.ID = stored.ID
	tokens := mustTokens(t, e) // without the right to delete, an engine keeps the expired one
	equal(t, "tokens after the first has expired", tokens[max(0, len(tokens)-2):], []auth.Token{b, c})
	if token := mustCreateToken(t, e, token("a", createdAt)); token.ID <= c.ID {
		t.Errorf("the id %d is not new: %s", token.ID, fmt.Sprint(mustTokens(t, e)))
	}

	many := make([]auth.Token, store.ChangeMax+5)
	for i := range many {
		many[i] = auth.NewRevokedJWT(issuer, fmt.Sprint(i), createdAt)
		many[i].ID = int64(100 + i)
	}
	must(t, e.PutTokens(t.Context(), many))
	before := len(mustTokens(t, e))
	mustRevokeIdentity(t, e, c)
	if removed := before - len(mustTokens(t, e)); removed > store.ChangeMax {
		t.Errorf("a call removed %d expired JWTs, want at most %d", removed, store.ChangeMax)
	}
	mustRevokeIdentity(t, e, c)
	last := many[len(many)-1].ID // has expired, too
	if token := mustCreateToken(t, e, token("b", createdAt)); token.ID != last+1 {
		t.Errorf("the id after %d is %d", last, token.ID)
	}
}

func mustState(t testing.TB, e Engine) store.State {
	t.Helper()
	state, err := e.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}
