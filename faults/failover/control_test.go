package failover

import (
	"os"
	"strings"
	"testing"

	"plantstore/faults/rig"
)

// Weaknesses that acknowledge a plant which only the primary has.
var (
	// plainSelect reads an existing plant without waiting for the standby.
	plainSelect = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  " WHERE id = $1 FOR UPDATE`",
		New:  " WHERE id = $1`",
	}
	// warningsIgnored treats a COMMIT with a warning as a success.
	warningsIgnored = rig.Weakness{
		File: "internal/postgres/transact.go",
		Old:  `n.SeverityUnlocalized == "WARNING"`,
		New:  `n.SeverityUnlocalized == "none"`,
	}
)

// TestControl destroys a primary with a plant that no standby has, because the test cancelled the wait for the standby.
// A weakened program acknowledges the plant, and the new primary does not have it. The long form tests each weakness
// alone, and the program without a weakness.
func TestControl(t *testing.T) {
	requireHosts(t, patroniFiles)
	c := newCluster(t, newPatroni(t))
	programs := map[string][]rig.Weakness{"both": {plainSelect, warningsIgnored}}
	if *long {
		programs = map[string][]rig.Weakness{
			"replays by a plain SELECT": {plainSelect},
			"warnings ignored":          {warningsIgnored},
			"no weakness":               nil,
		}
	}
	id := int64(0)
	for name, weak := range programs {
		id++
		program := rig.Build(t, weak...)
		token := rig.Token(t, program, c.url(), strings.ReplaceAll(name, " ", "-"))
		acked, stored := c.createWithoutStandby(token, program, id)
		t.Logf("%s: acknowledged %v, stored after the failover %v", name, acked, stored)
		if weakened := weak != nil; acked != weakened || stored {
			t.Errorf("%s: acknowledged %v, want %v; stored after the failover %v, want false", name, acked, weakened, stored)
		}
	}
}

// createWithoutStandby creates a plant on a primary without its standbys, cancels the wait for them and destroys the
// primary. It reports whether the plant was acknowledged, and whether the new primary has it.
func (c *cluster) createWithoutStandby(token, program string, id int64) (acked, stored bool) {
	c.t.Helper()
	server, err := rig.Start(c.t, program, c.url(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer server.Kill()
	primary := c.primary(nil)
	for _, h := range c.others(primary) {
		h.cut()
	}
	outcomes := make(chan rig.Outcome, 1)
	go func() { // ends with its request
		client := &rig.Client{Token: token, Timeout: requestMax}
		outcome, _ := client.Create(c.t.Context(), server.URL, id, "alone")
		outcomes <- outcome
	}()
	rig.Within(c.t, requestMax, pollEvery/10, "the wait for a standby is cancelled", func() bool {
		const sql = `WITH waiting AS MATERIALIZED (
				SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO plants %')
			SELECT count(pg_cancel_backend(pid)) FROM waiting`
		return c.execute(primary, sql) == "1"
	})
	acked = <-outcomes == rig.Stored
	primary.cut() // its kernel may still have unsent data for the standbys
	primary.kill()
	if err := os.RemoveAll(primary.dataDir()); err != nil {
		c.t.Fatal(err)
	}
	server.Kill() // it would send the plant to the new primary, too
	for _, h := range c.others(primary) {
		h.connect()
	}
	rig.Within(c.t, healthyMax, pollEvery, "another node is the primary", func() bool { return c.primary(primary) != nil })
	primary.connect()
	primary.start()
	c.waitHealthy()
	plants, err := rig.Export(c.t, program, urlOf(c.primary(nil)))
	if err != nil {
		c.t.Fatal(err)
	}
	_, stored = plants[id]
	return acked, stored
}
