package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// NewImport describes an import.
type NewImport struct {
	ID         string // 1 to 64 letters, digits, '.', '_' and '-', which the client chooses
	Name       string // of the file; at most fileNameBytesMax bytes
	Format     dump.Format
	OnConflict importer.Reaction
	Bytes      int64 // of the file; -1: unknown

	// File returns a reader of the file, plain or compressed. Its reads end with the context. The import closes it.
	File     func(context.Context) io.ReadCloser
	Received func() int64 // bytes that have arrived

	Principal auth.Principal // creates the plants
	By        audit.Origin
}

// fileNameBytesMax is the longest name of a file that an import has.
const fileNameBytesMax = 255

// Import is an import of this server. Its JSON is that of the API.
type Import struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Format     string    `json:"format"`
	OnConflict string    `json:"on_conflict"`
	State      string    `json:"state"`        // one of the states of jobs, or ImportCanceled
	By         string    `json:"by,omitempty"` // name of the credential
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	Bytes      int64     `json:"bytes"`        // that have arrived
	Of         *int64    `json:"of,omitempty"` // bytes of the file; nil: unknown

	importer.Counts

	Error       string         `json:"error,omitempty"` // why the import ended before the end of the file
	RejectsKept int64          `json:"rejects_kept"`    // rows that Rejects returns
	Rejects     []ImportReject `json:"rejects,omitempty"`
}

// ImportReject is a row that is not stored.
type ImportReject struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
	Text   string `json:"text,omitempty"` // the begin of the row; empty if the row is longer than the server keeps
}

// ImportCanceled is the state of an import that the operator or its client ended.
const ImportCanceled = "canceled"

// The limits of imports.
const (
	importsMax      = 2  // at the same time, and one of each credential
	importsKept     = 10 // ended ones, with their rejects
	importTimeMax   = 12 * time.Hour
	importBytesMax  = 16 << 30    // of a body
	importIdleMax   = time.Minute // in which each part of a body must arrive
	importRowMax    = 2 << 20     // bytes of a row
	importPlantMax  = 1 << 20     // bytes of a plant as JSON
	importBatchRows = 1000        // clients wait for a batch on SQLite
	importBatchMax  = 1 << 20     // bytes

	importRatioMax   = 100 // content of a compressed file, in times of its size; files of plants have up to 30
	importRejectsMax = 100_000
)

// Upload returns the body of a request as the file of an import, see server.NewUpload.
func (s *Service) Upload(w http.ResponseWriter, r *http.Request) (*server.Upload, error) {
	return server.NewUpload(w, r, s.uploads)
}

// imports are the imports of a server.
type imports struct {
	mu      sync.Mutex
	list    []*importJob // oldest first: the running ones and at most importsKept others; guarded by mu
	retired bool         // no more imports begin; guarded by mu
}

// importJob is an import. imports.mu guards the fields below done.
type importJob struct {
	owner  int64 // id of the token or of the subject
	cancel context.CancelCauseFunc
	done   chan struct{} // closed at the end

	state    Import
	rejects  *rejects
	received func() int64
}

var (
	errImportCanceled = &plant.Error{Code: plant.CodeImportStopped, Message: "the import was canceled"}
	errImportTooLong  = &plant.Error{
		Code: plant.CodeImportStopped, Message: fmt.Sprintf("the import took longer than %s", importTimeMax),
	}
	errImportPanic = &plant.Error{
		Code: plant.CodeInternal, Message: "internal error; the log of the server has the cause",
	}
)

// Import imports the plants of a file. It returns at the end of the file, after CancelImport or Retire, or when ctx
// ends with a *plant.Error as its cause. No other end of ctx ends it: net/http cancels the context of a request before
// the reader of its body returns the reason. The plants that are stored by then stay, and the same import can run
// again. The Import has an id if the import has begun.
func (s *Service) Import(ctx context.Context, n NewImport) (Import, error) {
	if err := n.check(); err != nil {
		return Import{}, err
	}
	request := ctx
	ctx, end, err := s.begin(context.WithoutCancel(ctx))
	if err != nil {
		return Import{}, err
	}
	defer end()
	ctx, cancelTime := context.WithTimeoutCause(ctx, importTimeMax, errImportTooLong)
	defer cancelTime()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(request, func() {
		if refusal := (*plant.Error)(nil); errors.As(context.Cause(request), &refusal) {
			cancel(refusal)
		}
	})()
	j, err := s.imports.add(n, cancel)
	if err != nil {
		return Import{}, err
	}
	ended := false
	defer func() {
		if !ended { // a panic, which the server logs with the request
			_, _ = s.endImport(ctx, j, n.By, s.imports.counts(j), errImportPanic)
		}
	}()
	counts, err := s.runImport(ctx, j, n)
	ended = true
	return s.endImport(ctx, j, n.By, counts, err)
}

// check returns an error for an invalid value.
func (n *NewImport) check() error {
	if !validImportID(n.ID) {
		return invalid(fmt.Sprintf("the id of an import has 1 to 64 letters, digits, '.', '_' and '-'; got %q",
			server.Shorten(n.ID)))
	}
	if len(n.Name) > fileNameBytesMax {
		return invalid(fmt.Sprintf("name has %d bytes; at most %d are allowed", len(n.Name), fileNameBytesMax))
	}
	if _, err := dump.ParseFormat(string(n.Format)); err != nil {
		return invalid(err.Error())
	}
	if _, err := importer.ParseReaction(string(n.OnConflict)); err != nil {
		return invalid(err.Error())
	}
	return nil
}

func validImportID(id string) bool {
	const bytesMax = 64
	for i := range len(id) {
		c := id[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return id != "" && len(id) <= bytesMax && id != "." && id != ".."
}

// add adds an import, unless too many run or its id is in use.
func (l *imports) add(n NewImport, cancel context.CancelCauseFunc) (*importJob, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return nil, errShutdown()
	}
	running := 0
	for _, j := range l.list {
		runs := j.state.State == JobRunning
		switch {
		case j.state.ID == n.ID && (runs || j.owner != n.Principal.TokenID):
			return nil, importRunning("the id " + n.ID + " is in use; use another one")
		case runs && j.owner == n.Principal.TokenID:
			return nil, importRunning("this credential has a running import; wait for its end, or cancel it")
		case runs:
			running++
		}
	}
	if running >= importsMax {
		return nil, importRunning(fmt.Sprintf("%d imports are running; wait for the end of one", importsMax))
	}
	l.list = slices.DeleteFunc(l.list, func(j *importJob) bool { return j.state.ID == n.ID })
	j := &importJob{
		owner: n.Principal.TokenID, cancel: cancel, done: make(chan struct{}), rejects: newRejects(), received: n.Received,
		state: Import{
			ID: n.ID, Name: n.Name, Format: string(n.Format), OnConflict: string(n.OnConflict), State: JobRunning,
			By: n.Principal.Name, StartedAt: time.Now().UTC(),
		},
	}
	if n.Bytes >= 0 {
		j.state.Of = &n.Bytes
	}
	l.list = append(l.list, j)
	return j, nil
}

func importRunning(message string) error {
	return &plant.Error{Code: plant.CodeImportRunning, Message: message}
}

// find returns the import with an id that a principal may see: its own ones and, with the scope admin, all. The caller
// has locked mu.
func (l *imports) find(id string, p auth.Principal) (*importJob, error) {
	for _, j := range l.list {
		if j.state.ID == id && j.visible(p) {
			return j, nil
		}
	}
	return nil, &plant.Error{
		Code:    plant.CodeImportNotFound,
		Message: fmt.Sprintf("the server has no import with this id; it keeps the last %d of this process", importsKept),
	}
}

// counts returns the counts of the batches of an import until now.
func (l *imports) counts(j *importJob) importer.Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return j.state.Counts
}

func (j *importJob) visible(p auth.Principal) bool {
	return j.owner == p.TokenID || p.Scopes.Has(auth.ScopeAdmin)
}

// snapshot returns the state of an import. The caller has locked mu.
func (j *importJob) snapshot() Import {
	i := j.state
	if i.State == JobRunning {
		i.Bytes = j.received()
	}
	i.RejectsKept, i.Rejects = j.rejects.kept, slices.Clone(j.rejects.first)
	return i
}

// Imports returns the imports that a principal may see, the newest first, without their rejects: its own ones and, with
// the scope admin, all.
func (s *Service) Imports(p auth.Principal) []Import {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	list := []Import{}
	for _, j := range slices.Backward(s.imports.list) {
		if j.visible(p) {
			i := j.snapshot()
			i.Rejects = nil
			list = append(list, i)
		}
	}
	return list
}

// ImportOf returns an import with the begins of its first rejects.
func (s *Service) ImportOf(id string, p auth.Principal) (Import, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.find(id, p)
	if err != nil {
		return Import{}, err
	}
	return j.snapshot(), nil
}

// CancelImport ends a running import and waits for its end, at most until that of ctx. An import that has ended stays
// as it is.
func (s *Service) CancelImport(ctx context.Context, id string, p auth.Principal) (Import, error) {
	s.imports.mu.Lock()
	j, err := s.imports.find(id, p)
	s.imports.mu.Unlock()
	if err != nil {
		return Import{}, err
	}
	j.cancel(errImportCanceled)
	select {
	case <-j.done:
	case <-ctx.Done():
	}
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	return j.snapshot(), nil
}

// Retire ends the running imports and refuses further ones, while the server still responds.
func (s *Service) Retire() {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.retired = true
	for _, j := range s.imports.list {
		j.cancel(errShutdown())
	}
}
