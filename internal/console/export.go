package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// exportPlants responds with a file of the plants of a search, or of all plants.
func (c *Console) exportPlants(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	format := dump.Format(r.URL.Query().Get("format"))
	if format != dump.CSV && format != dump.JSONL {
		return plant.InvalidQuery("format must be csv or jsonl")
	}
	adminapi.Attach(w, format, "plants."+string(format))
	if r.Method == http.MethodHead {
		return nil
	}
	q, search := searchOf(r)
	list := c.listAll
	if search {
		list = c.findAll
	}
	written, err := export(c.api.Stream(r.Context(), w), format, func(write func([]plant.Record) error) error {
		return list(r.Context(), q, write)
	})
	result := "complete"
	if err != nil {
		result = "interrupted"
	}
	c.record(w, r, principal, audit.PlantsExport, audit.Detail{Key: "file", Value: "console"},
		audit.Detail{Key: "format", Value: string(format)}, audit.Detail{Key: "result", Value: result},
		audit.Detail{Key: "written", Value: strconv.FormatInt(written, 10)})
	if err != nil {
		panic(http.ErrAbortHandler) // the browser must not keep an incomplete file
	}
	return nil
}

// export writes a file with the plants that list passes to write, and returns their number.
func export(
	w io.Writer, format dump.Format, list func(write func([]plant.Record) error) error,
) (written int64, err error) {
	file, err := dump.NewWriter(w, format, dump.None)
	if err != nil {
		return 0, err
	}
	err = list(func(records []plant.Record) error {
		for _, p := range records {
			if err := file.Write(p.NewPlant); err != nil {
				return fmt.Errorf("write a plant: %w", err)
			}
			written++
		}
		return nil
	})
	return written, errors.Join(err, file.Close())
}

// listAll writes all plants.
func (c *Console) listAll(ctx context.Context, _ admin.SearchQuery, write func([]plant.Record) error) error {
	for cursor := ""; ; {
		page, err := c.Operations.Plants(ctx, admin.PageQuery{Cursor: cursor, Limit: admin.PageMax})
		if err := errors.Join(err, write(page.Plants)); err != nil {
			return err
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// findAll writes all hits of a search.
func (c *Console) findAll(ctx context.Context, q admin.SearchQuery, write func([]plant.Record) error) error {
	q.Cursor, q.Limit = "", admin.SearchMax
	for {
		end, err := c.Operations.Search(ctx, q, func(p admin.SearchProgress) error { return write(p.Hits) })
		switch {
		case err != nil:
			return err
		case end.Reason != admin.Complete && end.Reason != admin.Limited:
			return fmt.Errorf("the search ended early: %s", end.Reason)
		}
		if q.Cursor = end.Next; q.Cursor == "" {
			return nil
		}
	}
}
