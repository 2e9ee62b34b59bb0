package failover

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plantstore/faults/rig"
)

// The weaknesses of programs that take a plant for stored that is on the primary
// alone.
var (
	// plainSelect finds a plant that is there without waiting for the standby.
	plainSelect = rig.Weakness{File: "internal/postgres/insert.go", Old: " WHERE id = $1 FOR UPDATE`", New: " WHERE id = $1`"}
	// warningsIgnored takes a COMMIT for done that was answered with a warning.
	warningsIgnored = rig.Weakness{File: "internal/postgres/transact.go", Old: `n.SeverityUnlocalized == "WARNING"`, New: `n.SeverityUnlocalized == "none"`}
)

// TestControl destroys a primary that had a plant which no standby had: the wait
// for the standby was cancelled by hand. A program that is weakened has
// acknowledged the plant, and the standby that takes over does not have it. The
// long form tries each weakness alone, and a program that has none.
func TestControl(t *testing.T) {
	needHosts(t, patroniFiles)
	c := newCluster(t, newPatroni(t))
	tries := map[string][]rig.Weakness{"both": {plainSelect, warningsIgnored}}
	if *long {
		tries = map[string][]rig.Weakness{"replays by a plain SELECT": {plainSelect}, "warnings ignored": {warningsIgnored}, "nothing weakened": nil}
	}
	id := int64(0)
	for name, weak := range tries {
		id++
		program := rig.Build(t, weak...)
		acked, there := c.unguarded(rig.Token(t, program, c.url(), strings.ReplaceAll(name, " ", "-")), program, id)
		t.Logf("%s: acknowledged %v, there after the failover %v", name, acked, there)
		if weakened := weak != nil; acked != weakened || there {
			t.Errorf("%s: acknowledged %v, want %v; there %v, want false", name, acked, weakened, there)
		}
	}
}

// unguarded creates a plant on a primary without its standbys, cancels the wait
// for them, destroys the primary, and reports whether the plant was acknowledged
// and whether it is there afterwards.
func (c *cluster) unguarded(token, program string, id int64) (acked, there bool) {
	c.t.Helper()
	server, err := rig.Start(c.t, program, c.url(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer server.Kill()
	primary := c.leader(nil)
	for _, h := range c.others(primary) {
		h.cut()
	}
	answers := make(chan rig.Outcome, 1)
	go func() { // ends with its request
		client := &rig.Client{Token: token, HTTP: http.Client{Timeout: answerMax}}
		outcome, _ := client.Create(c.t.Context(), server.URL, id, "alone")
		answers <- outcome
	}()
	rig.Within(c.t, answerMax, pollEvery/10, "the wait for a standby is cancelled", func() bool {
		const sql = `WITH waiting AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO plants %')
			SELECT count(pg_cancel_backend(pid)) FROM waiting`
		return c.sql(primary, sql) == "1"
	})
	acked = <-answers == rig.Stored
	primary.cut() // its kernel still has for the standbys what they have not got
	primary.kill()
	if err := os.RemoveAll(filepath.Join(primary.dir, "data")); err != nil {
		c.t.Fatal(err)
	}
	server.Kill() // it would send the plant to the new primary, too
	for _, h := range c.others(primary) {
		h.heal()
	}
	rig.Within(c.t, wholeMax, pollEvery, "another node is the primary", func() bool { return c.leader(primary) != nil })
	primary.heal()
	primary.start()
	c.whole()
	plants, err := rig.Export(c.t, program, urlOf(c.leader(nil)))
	if err != nil {
		c.t.Fatal(err)
	}
	_, there = plants[id]
	return acked, there
}
