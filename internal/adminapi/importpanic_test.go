package adminapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"plantstore/internal/admin"
	"plantstore/internal/importer"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// panickingEngine stores one batch, panics at the next one, and then works again.
type panickingEngine struct {
	writepath.Engine

	batches int
}

func (e *panickingEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	e.batches++
	if e.batches == 2 {
		panic("defect of the engine")
	}
	return e.Engine.Insert(ctx, batch)
}

// An import whose batch panics has failed, and the next import of the credential runs.
func TestImportThatPanics(t *testing.T) {
	t.Parallel()
	h := start(t, setup{insert: func(e writepath.Engine) writepath.Engine { return &panickingEngine{Engine: e} }})
	c := h.importing("nursery", 0)
	var file strings.Builder
	file.WriteString("id,name\n")
	for i := range 1001 { // the last row is in the second batch
		fmt.Fprintf(&file, "%d,Rosa %d\n", i+1, i)
	}
	check(t, "panic", c.put("/imports/a?name=a.csv", file.String()), refused(
		50001, "internal error; the log of the server has the cause under the request id"))
	i := c.state("a")
	if i.State != admin.JobFailed || i.EndedAt.IsZero() || i.Counts != (importer.Counts{Created: 1000}) ||
		i.Error != "internal error; the log of the server has the cause" {
		t.Errorf("got %+v", i)
	}
	if log := h.log.string(); !strings.Contains(log, "panic: defect of the engine") {
		t.Errorf("the log has no panic:\n%s", log)
	}
	h.checkEntry("nursery", "conflicting=0 created=1000 existing=0 file=a.csv invalid=0 result=failed")
	c.put("/imports/b?name=b.csv", file.String())
	if i := c.state("b"); i.State != admin.JobComplete || i.Counts != (importer.Counts{Created: 1, Existing: 1000}) {
		t.Errorf("the next import: got %+v", i)
	}
}
