package adminapi

import (
	"encoding/json"
	"net/http"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

func (a *API) searchPlants(c *call) error {
	if !c.query.Has("name") && !c.query.Has("tag") {
		return plant.InvalidQuery("the search needs name, a part of the name, or tag")
	}
	limit, err := c.query.limit(admin.SearchMax)
	if err != nil {
		return err
	}
	return a.SendSearch(c.Call, admin.SearchQuery{
		Name: c.query.Get("name"), Tag: c.query.tag(), Cursor: c.query.Get("cursor"), Limit: limit,
	})
}

// SendSearch responds with the lines of a search as NDJSON, as soon as it has them, or to HEAD with the headers only. A
// disconnect ends the search. If it returns an error, it has written nothing.
func (a *API) SendSearch(c *server.Call, q admin.SearchQuery) error {
	c.Header().Set("Content-Type", ndjsonType)
	if c.Method == http.MethodHead {
		c.WriteHeader(http.StatusOK)
		return nil
	}
	out := searchWriter{to: a.Stream(c.Context(), c)}
	end, err := a.service.Search(c.Context(), q, out.progress)
	if out.progressAt.IsZero() { // the search has not started
		return err
	}
	if err == nil { // otherwise the client has disconnected
		_ = out.send(appendLine(nil, endLine{"end", end.Reason, end.Hits, end.Rows, end.Took.Milliseconds(), end.Next}))
	}
	return nil
}

// searchWriter writes the lines of a search.
type searchWriter struct {
	to         *Stream
	progressAt time.Time // the last progress line; zero before the first one
}

type progressLine struct {
	Type  string `json:"type"`
	Rows  int64  `json:"rows"`
	Total *int64 `json:"total,omitempty"` // nil: unknown
}

type endLine struct {
	Type   string          `json:"type"`
	Reason admin.EndReason `json:"reason"`
	Hits   int64           `json:"hits"`
	Rows   int64           `json:"rows"`
	TookMS int64           `json:"took_ms"`
	Next   string          `json:"next,omitempty"`
}

// progress writes the hits, and a progress line every admin.ProgressEvery.
func (s *searchWriter) progress(p admin.SearchProgress) error {
	if s.progressAt.IsZero() {
		s.to.WriteHeader(http.StatusOK) // even to a client that has left: the log and the metrics have the status
	}
	var lines []byte
	if p.Again {
		lines = append(lines, `{"type":"again"}`+"\n"...)
	}
	for _, hit := range p.Hits {
		lines = append(lines, `{"type":"hit","plant":`...)
		lines = append(hit.AppendJSON(lines), '}', '\n')
	}
	if time.Since(s.progressAt) >= admin.ProgressEvery {
		s.progressAt = time.Now()
		lines = appendLine(lines, progressLine{Type: "progress", Rows: p.Rows, Total: p.Total})
	}
	return s.send(lines)
}

func appendLine(lines []byte, line any) []byte {
	text, _ := json.Marshal(line) // cannot fail for these types
	return append(append(lines, text...), '\n')
}

func (s *searchWriter) send(lines []byte) error {
	if _, err := s.to.Write(lines); err != nil {
		return err
	}
	return s.to.control.Flush()
}
