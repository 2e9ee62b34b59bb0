package adminapi

import (
	"encoding/json"
	"net/http"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/plant"
)

func (a *API) searchPlants(c *call) error {
	if !c.query.Has("name") && !c.query.Has("tag") {
		return plant.InvalidQuery("the search needs name, a part of the name, or tag")
	}
	limit, err := c.query.limit(admin.SearchMax)
	if err != nil {
		return err
	}
	return a.SendSearch(c.w, c.Request, admin.SearchQuery{
		Name: c.query.Get("name"), Tag: c.query.tag(), Cursor: c.query.Get("cursor"), Limit: limit,
	})
}

// SendSearch responds with the lines of a search as NDJSON, as soon as it has them, or to HEAD with the headers only. A
// disconnect ends the search. If it returns an error, it has written nothing.
func (a *API) SendSearch(w http.ResponseWriter, r *http.Request, q admin.SearchQuery) error {
	out := &searchWriter{to: a.Stream(r.Context(), w)}
	if r.Method == http.MethodHead {
		out.start()
		return nil
	}
	end, err := a.service.Search(r.Context(), q, out.progress)
	if err == nil {
		err = out.end(end)
	}
	if out.started { // an error means that the client has disconnected
		return nil
	}
	return err
}

// searchWriter writes the lines of a search.
type searchWriter struct {
	to         *Stream
	started    bool
	lines      []byte
	progressAt time.Time // the last progress line
}

type progressLine struct {
	Type string `json:"type"`
	Rows int64  `json:"rows"`
	Of   *int64 `json:"of,omitempty"` // nil: unknown
}

type endLine struct {
	Type   string          `json:"type"`
	Reason admin.EndReason `json:"reason"`
	Hits   int64           `json:"hits"`
	Rows   int64           `json:"rows"`
	TookMS int64           `json:"took_ms"`
	Next   string          `json:"next,omitempty"`
}

func (s *searchWriter) start() {
	s.started = true
	header := s.to.Header()
	header.Set("Content-Type", ndjsonType)
	header.Set("Cache-Control", "no-store")
	s.to.WriteHeader(http.StatusOK)
}

// progress writes the hits, and a progress line every admin.ProgressEvery.
func (s *searchWriter) progress(p admin.SearchProgress) error {
	s.lines = s.lines[:0]
	for _, hit := range p.Hits {
		s.lines = append(s.lines, `{"type":"hit","plant":`...)
		s.lines = append(hit.AppendJSON(s.lines), '}', '\n')
	}
	if time.Since(s.progressAt) >= admin.ProgressEvery {
		s.progressAt = time.Now()
		s.add(progressLine{Type: "progress", Rows: p.Rows, Of: p.Of})
	}
	return s.send()
}

func (s *searchWriter) end(e admin.SearchEnd) error {
	s.lines = s.lines[:0]
	s.add(endLine{"end", e.Reason, e.Hits, e.Rows, e.Took.Milliseconds(), e.Next})
	return s.send()
}

func (s *searchWriter) add(line any) {
	text, _ := json.Marshal(line) // cannot fail for these types
	s.lines = append(append(s.lines, text...), '\n')
}

// send sends the lines to the client.
func (s *searchWriter) send() error {
	if !s.started {
		s.start()
	}
	if _, err := s.to.Write(s.lines); err != nil {
		return err
	}
	return s.to.control.Flush()
}
