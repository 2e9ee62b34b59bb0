package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"plantstore/internal/auth"
)

func (a api) searchPlants(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	values, err := parameters(r, "name", "tag", "limit", "cursor")
	if err != nil {
		return err
	}
	if !values.Has("name") && !values.Has("tag") {
		return invalid("the search needs name, a part of the name, or tag")
	}
	q := SearchQuery{Name: values.Get("name"), Tag: tagParameter(values), Cursor: values.Get("cursor")}
	if q.Limit, err = intParameter(values, "limit", limitDefault, 1, SearchMax); err != nil {
		return err
	}
	return a.service.SendSearch(w, r, q)
}

// SendSearch responds to a GET request with the lines of a search as NDJSON, as soon as it has them. A disconnect ends
// the search. If it returns an error, nothing was written.
func (s *Service) SendSearch(w http.ResponseWriter, r *http.Request, q SearchQuery) error {
	out := &searchWriter{response: w, control: http.NewResponseController(w), lineTime: s.lineTime}
	if r.Method == http.MethodHead {
		out.start()
		return nil
	}
	end, err := s.Search(r.Context(), q, out.progress)
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
	response   http.ResponseWriter
	control    *http.ResponseController
	lineTime   time.Duration
	started    bool
	lines      []byte
	progressAt time.Time // the last progress line
}

// lineTimeMax is the time in which a client must accept the lines of a report.
const lineTimeMax = 10 * time.Second

type progressLine struct {
	Type string `json:"type"`
	Rows int64  `json:"rows"`
	Of   *int64 `json:"of,omitempty"` // nil: unknown
}

type endLine struct {
	Type   string    `json:"type"`
	Reason EndReason `json:"reason"`
	Hits   int64     `json:"hits"`
	Rows   int64     `json:"rows"`
	TookMS int64     `json:"took_ms"`
	Next   string    `json:"next,omitempty"`
}

func (s *searchWriter) start() {
	s.started = true
	header := s.response.Header()
	header.Set("Content-Type", "application/x-ndjson")
	header.Set("Cache-Control", "no-store")
	s.response.WriteHeader(http.StatusOK)
}

// progress writes the hits, and a progress line every progressEvery.
func (s *searchWriter) progress(p SearchProgress) error {
	s.lines = s.lines[:0]
	for _, hit := range p.Hits {
		s.lines = append(s.lines, `{"type":"hit","plant":`...)
		s.lines = append(hit.AppendJSON(s.lines), '}', '\n')
	}
	if time.Since(s.progressAt) >= progressEvery {
		s.progressAt = time.Now()
		s.add(progressLine{Type: "progress", Rows: p.Rows, Of: known(p.Of)})
	}
	return s.send()
}

func (s *searchWriter) end(e SearchEnd) error {
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
	if err := s.control.SetWriteDeadline(time.Now().Add(s.lineTime)); err != nil {
		return fmt.Errorf("extend the write deadline: %w", err)
	}
	if _, err := s.response.Write(s.lines); err != nil {
		return err
	}
	return s.control.Flush()
}
