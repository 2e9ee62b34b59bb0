package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/audit"
	"plantstore/internal/dump"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// exportPlants responds with a file of the plants of a search, or of all plants.
func (c *Console) exportPlants(call *server.Call) error {
	format := dump.Format(call.URL.Query().Get("format"))
	if format != dump.CSV && format != dump.JSONL {
		return plant.InvalidQuery("format must be csv or jsonl")
	}
	adminapi.Attach(call, format, "plants."+string(format))
	if call.Method == http.MethodHead {
		return nil
	}
	plants, err := c.export(call.Request, c.api.Stream(call.Context(), call), format)
	result := "complete"
	if err != nil {
		result = "interrupted"
	}
	c.Audit.Collect(audit.Event{
		Time: c.now(), Action: audit.PlantsExport, Origin: call.Origin(), Details: []audit.Detail{
			{Key: "result", Value: result}, {Key: "file", Value: "console"},
		},
	}, audit.Sum{Key: "plants", N: plants})
	if err != nil {
		panic(http.ErrAbortHandler) // the browser must not keep an incomplete file
	}
	return nil
}

// export writes a file with the plants of the search of a request, or with all plants, and returns their number.
func (c *Console) export(r *http.Request, w io.Writer, format dump.Format) (written int64, err error) {
	file, err := dump.NewWriter(w, format, dump.None)
	if err != nil {
		return 0, err
	}
	write := func(plants []plant.Record) error {
		for _, p := range plants {
			if p.Damaged {
				err := store.Damaged(p.ID)
				c.Log.Warn("console: could not export a plant", "error", err)
				return err
			}
			if err := file.Write(p.NewPlant); err != nil {
				return err
			}
			written++
		}
		return nil
	}
	q, search := searchOf(r)
	q.Cursor, q.Limit = "", admin.SearchMax
	page := c.listPage
	if search {
		page = c.findPage
	}
	for more := true; more && err == nil; more = q.Cursor != "" {
		q.Cursor, err = page(r.Context(), q, write)
	}
	return written, errors.Join(err, file.Close())
}

// listPage writes the plants of a page, and returns the cursor of the next one; empty: this is the last page.
func (c *Console) listPage(
	ctx context.Context, q admin.SearchQuery, write func([]plant.Record) error,
) (next string, err error) {
	page, err := c.Operations.Plants(ctx, admin.PageQuery{Cursor: q.Cursor, Limit: admin.PageMax})
	if err != nil {
		return "", err
	}
	return page.Next, write(page.Plants)
}

// findPage is listPage for the plants of a search.
func (c *Console) findPage(
	ctx context.Context, q admin.SearchQuery, write func([]plant.Record) error,
) (next string, err error) {
	end, err := c.Operations.Search(ctx, q, func(p admin.SearchProgress) error { return write(p.Hits) })
	if err == nil && end.Reason != admin.Complete && end.Reason != admin.Limited {
		err = fmt.Errorf("the search ended early: %s", end.Reason)
	}
	return end.Next, err
}
