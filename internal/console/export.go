package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// deadlineWriter writes to a client that accepts each part within 10 seconds.
type deadlineWriter struct{ http.ResponseWriter }

// Write implements io.Writer.
func (d deadlineWriter) Write(p []byte) (int, error) {
	control := http.NewResponseController(d.ResponseWriter)
	if err := control.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	return d.ResponseWriter.Write(p)
}

// exportPlants responds with a file of the plants of a search, or of all plants.
func (c *Console) exportPlants(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	format := dump.Format(r.URL.Query().Get("format"))
	types := map[dump.Format]string{dump.CSV: "text/csv; charset=utf-8", dump.JSONL: "application/x-ndjson"}
	if types[format] == "" {
		return &plant.Error{Code: plant.CodeQueryInvalid, Message: "format must be csv or jsonl"}
	}
	h := w.Header()
	h.Set("Content-Type", types[format])
	h.Set("Content-Disposition", `attachment; filename="plants.`+string(format)+`"`)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	file, err := dump.NewWriter(deadlineWriter{w}, format, dump.None)
	written := int64(0)
	if err == nil {
		written, err = c.export(r, file)
	}
	result := "complete"
	if err = errors.Join(err, closed(file)); err != nil {
		result = "interrupted"
	}
	c.record(w, r, principal, audit.PlantsExport, audit.Detail{Key: "file", Value: "console"},
		audit.Detail{Key: "format", Value: string(format)}, audit.Detail{Key: "result", Value: result},
		audit.Detail{Key: "written", Value: strconv.FormatInt(written, 10)})
	if err != nil {
		panic(http.ErrAbortHandler) // the browser must not keep a part of the file as a whole
	}
	return nil
}

func closed(file *dump.Writer) error {
	if file == nil {
		return nil
	}
	return file.Close()
}

// export writes the plants of the search of a request, and returns their number.
func (c *Console) export(r *http.Request, file *dump.Writer) (written int64, err error) {
	write := func(records []plant.Record) error {
		for _, p := range records {
			if err := file.Write(p.NewPlant); err != nil {
				return fmt.Errorf("write a plant: %w", err)
			}
			written++
		}
		return nil
	}
	q, search := searchOf(r)
	q.Cursor, q.Limit = "", admin.SearchMax
	for {
		next := ""
		if search {
			end, err := c.Operations.Search(r.Context(), q, func(p admin.SearchProgress) error { return write(p.Hits) })
			if err != nil {
				return written, err
			}
			if end.Reason != admin.Complete && end.Reason != admin.Limited {
				return written, errors.New("the search ended early: " + string(end.Reason))
			}
			next = end.Next
		} else {
			page, err := c.Operations.Plants(r.Context(), admin.PageQuery{Cursor: q.Cursor, Limit: admin.PageMax})
			if err := errors.Join(err, write(page.Plants)); err != nil {
				return written, err
			}
			next = page.Next
		}
		if q.Cursor = next; next == "" {
			return written, nil
		}
	}
}
