// Package storetest is the contract of an engine as a suite of tests that every engine passes.
package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Store is a store that several engines can open, in turn or at the same time.
type Store interface {
	// Open opens an engine on the store. The suite closes it.
	Open(t testing.TB) Engine

	// Tamper runs SQL as a program that can change every row of the store.
	Tamper(t testing.TB, sql string)
}

// Run runs the suite. newStore returns an empty store for one test.
func Run(t *testing.T, newStore func(t testing.TB) Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s Store)
	}{
		{"insert/outcomes", testOutcomes},
		{"insert/same id in one batch", testSameBatch},
		{"insert/content", testContent},
		{"insert/empty batch", testEmptyBatch},
		{"insert/deadline", testInsertDeadline},
		{"insert/probe", testProbe},
		{"insert/from several engines", testSeveralEngines},
		{"insert/model", testModel},
		{"read/get and list", testReading},
		{"read/pages", testPages},
		{"read/scan", testScan},
		{"read/scan to the end", testScanEnd},
		{"read/scan of large plants", testScanLarge},
		{"read/by id", testPlantsByID},
		{"read/canceled", testReadCanceled},
		{"tokens/create", testCreateToken},
		{"tokens/first", testFirstTokens},
		{"tokens/first, several at once", testFirstTokensRace},
		{"tokens/rotate", testRotate},
		{"tokens/revoke", testRevoke},
		{"tokens/revoke, clock ahead", testRevokeAhead},
		{"tokens/changes", testTokenChanges},
		{"tokens/last use", testMarkUsed},
		{"tokens/subjects", testSubjects},
		{"tokens/subjects, several at once", testSubjectsAtOnce},
		{"tokens/subjects are no tokens", testSubjectsAreNoTokens},
		{"tokens/pruned subjects", testPrunedSubjects},
		{"tokens/revoked JWTs", testRevokedJWTs},
		{"audit/append", testAppendAudit},
		{"audit/tokens", testAuditTokens},
		{"audit/several engines at once", testAuditRace},
		{"audit/prune", testPruneAudit},
		{"audit/tampering", testTampering},
		{"audit/revocation without an entry", testUnrecorded},
		{"outbox/events", testEvents},
		{"outbox/events of other engines", testEventsOfOthers},
		{"outbox/many events", testManyEvents},
		{"outbox/large events", testLargeEvents},
		{"outbox/results", testDeliveryResults},
		{"outbox/lease", testLease},
		{"outbox/removed plants", testRemovedPlants},
		{"outbox/several engines at once", testClaimRace},
		{"outbox/webhooks", testSetWebhooks},
		{"outbox/many deliveries", testManyDeliveries},
		{"outbox/dead letters", testDeadLetters},
		{"outbox/expire", testExpire},
		{"erase/plants", testErase},
		{"erase/large", testEraseMany},
		{"erase/corrections", testCorrect},
		{"erase/deliveries", testErasedEvents},
		{"erase/in flight", testErasedInFlight},
		{"erase/race", testEraseRace},
		{"move/tokens", testPutTokens},
		{"move/audit", testPutAudit},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newStore(t))
		})
	}
}

// createdAt is a time of the precision that engines store.
var createdAt = time.Date(2026, 11, 21, 9, 30, 0, 123456000, time.UTC)

// create returns a create of the operator.
func create(id int64, name string, tag plant.Tag) store.Create {
	return store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: tag}}, At: createdAt}
}

func mustInsert(t testing.TB, e Engine, batch ...store.Create) []store.Outcome {
	t.Helper()
	outcomes, err := e.Insert(t.Context(), batch)
	if err != nil {
		t.Fatalf("Insert: %v", err)
	}
	return outcomes
}

func mustGet(t testing.TB, e Engine, id int64) plant.Record {
	t.Helper()
	r, err := e.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get(%d): %v", id, err)
	}
	return r
}

func mustList(t testing.TB, e Engine, q store.Query) []plant.Record {
	t.Helper()
	records, err := e.List(t.Context(), q)
	if err != nil {
		t.Fatalf("List(%+v): %v", q, err)
	}
	return records
}

// mustCreateToken stores a token and returns it with its id.
func mustCreateToken(t testing.TB, e Engine, token auth.Token) auth.Token {
	t.Helper()
	id, err := e.CreateToken(t.Context(), token, operator)
	if err != nil {
		t.Fatalf("CreateToken(%q): %v", token.Name, err)
	}
	token.ID = id
	return token
}

// scopesOf parses scopes.
func scopesOf(t testing.TB, text string) auth.Scopes {
	t.Helper()
	scopes, err := auth.ParseScopes(text)
	if err != nil {
		t.Fatal(err)
	}
	return scopes
}

func mustTokens(t testing.TB, e Engine) []auth.Token {
	t.Helper()
	tokens, err := e.Tokens(t.Context())
	if err != nil {
		t.Fatalf("Tokens: %v", err)
	}
	return tokens
}

// open opens an engine until the end of the test.
func open(t testing.TB, s Store) Engine {
	t.Helper()
	e := s.Open(t)
	t.Cleanup(func() { mustClose(t, e) })
	return e
}

func mustClose(t testing.TB, e Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// equal reports a difference. It compares tags with ==.
func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	sameTag := cmp.Comparer(func(a, b plant.Tag) bool { return a == b })
	if diff := cmp.Diff(want, got, sameTag); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
