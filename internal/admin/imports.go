package admin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
)

// NewImport describes an import.
type NewImport struct {
	ID         string      // which the client chooses: 1 to 64 letters, digits, '.', '_' and '-'
	Name       string      // file name of at most fileNameBytesMax bytes
	Format     dump.Format // empty: by the end of the name
	OnConflict importer.Reaction
	Options    dump.Options // without its format and limits
	DryRun     bool         // see importer.Config
	Bytes      int64        // size of the file; -1: unknown

	// File returns a reader of the file, plain or compressed. Its reads end with the context. The import closes it.
	File     func(context.Context) io.ReadCloser
	Received func() int64 // bytes that have arrived

	Principal auth.Principal // creates the plants
	By        audit.Origin
}

const fileNameBytesMax = 255

// Import is an import of this server, in the form of the API.
type Import struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Format     dump.Format       `json:"format"`
	OnConflict importer.Reaction `json:"on_conflict"`
	State      string            `json:"state"`        // one of the states of jobs and of imports
	By         string            `json:"by,omitempty"` // name of the credential
	Own        bool              `json:"-"`            // the credential is the one that asks; only in lists
	Check      int64             `json:"-"`            // number of the last check, for StartImport
	StartedAt  time.Time         `json:"started_at"`
	EndedAt    time.Time         `json:"ended_at,omitzero"`
	Bytes      int64             `json:"bytes"`           // that have arrived
	Total      *int64            `json:"total,omitempty"` // bytes of the file; nil: unknown

	importer.Counts

	DryRun bool             `json:"dry_run,omitempty"` // nothing is stored, see importer.Config
	First  []plant.NewPlant `json:"first,omitempty"`   // of a dry run
	Found  *dump.Found      `json:"found,omitempty"`   // nil: the file has not been opened

	Error       string         `json:"error,omitempty"` // why the import ended before the end of the file
	RejectsKept int64          `json:"rejects_kept"`    // rows that Rejects returns
	Rejects     []ImportReject `json:"rejects,omitempty"`
}

// ImportReject is a row that is not stored.
type ImportReject struct {
	dump.Place

	Reason string `json:"reason"`
	Text   string `json:"text,omitempty"` // the start of the row; empty if the row is longer than the server keeps
}

// The states of an import, besides those of jobs.
const (
	ImportReceiving = "receiving" // the file arrives, see KeepFile
	ImportReady     = "ready"     // the file is kept; CheckImport is next
	ImportChecking  = "checking"
	ImportChecked   = "checked" // StartImport is next
	ImportCanceled  = "canceled"
)

// The limits of imports.
const (
	importsMax      = 2   // at the same time; one for each credential
	importsKept     = 10  // ended ones of each credential, with their rejects
	importsKeptMax  = 100 // ended ones of all credentials
	rejectsKeptMax  = 10 * rejectsBytesMax
	importTimeMax   = 12 * time.Hour
	importRowMax    = 2 << 20 // bytes of a row
	importPlantMax  = 1 << 20 // bytes of a plant as JSON
	importBatchRows = 1000    // clients wait for a batch on SQLite
	importBatchMax  = 1 << 20 // bytes

	importRatioMax   = 100 // size of the content of a compressed file, as a multiple of its own; plants reach 30
	importRejectsMax = 100_000
	importSortMemory = 16 << 20 // bytes; a dry run uses up to twice as many, and a temporary file
)

type imports struct {
	mu      sync.Mutex
	list    []*importJob // oldest first: those that have not ended, and ended ones; guarded by mu
	retired bool         // no more imports start; guarded by mu

	rejectsMax int // bytes of the rejects of ended imports
}

// importJob is an import. imports.mu guards the fields below owner.
type importJob struct {
	owner int64 // id of the token or of the subject

	state    Import
	rejects  *rejects
	received func() int64            // bytes that the present step has read
	cancel   context.CancelCauseFunc // ends the present step
	done     chan struct{}           // closed at the end of the present step
	kept     *keptFile               // nil: the import reads the body of a request, or has ended
}

// ended reports whether no further step comes.
func (j *importJob) ended() bool { return !j.state.EndedAt.IsZero() }

// waits reports whether the server waits for a person.
func (j *importJob) waits() bool {
	return j.state.State == ImportReady || j.state.State == ImportChecked
}

// usesStore reports whether the import reads or changes the store.
func (j *importJob) usesStore() bool {
	return j.state.State == JobRunning || j.state.State == ImportChecking
}

var (
	errImportCanceled = plant.Errorf(plant.CodeImportStopped, "the import was canceled")
	errImportTooLong  = plant.Errorf(plant.CodeImportStopped, "the import took longer than %s", importTimeMax)
	errImportPanic    = plant.Errorf(plant.CodeInternal, "internal error; the log of the server has the cause")
)

// Import imports the plants of a file. It returns at the end of the file, after CancelImport or Retire, or when ctx
// ends with a *plant.Error as its cause. Any other end of ctx is ignored, because net/http cancels the context of a
// request before the reader of its body returns the reason. The plants that are stored by then stay, and the same
// import can run again. The Import has an id if the import has started.
func (s *Service) Import(ctx context.Context, n NewImport) (i Import, err error) {
	if err := n.check(); err != nil {
		return Import{}, err
	}
	ctx, cancel, end, err := s.beginImport(ctx)
	if err != nil {
		return Import{}, err
	}
	defer end()
	j, err := s.imports.add(n, JobRunning, cancel)
	if err != nil {
		return Import{}, err
	}
	err = errImportPanic // unless runImport returns; the server logs a panic with the request
	defer func() { i, err = s.endImport(ctx, j, n.By, err) }()
	return i, s.runImport(ctx, j, n)
}

// beginImport is begin for a part of an import. The context ends when request does with a *plant.Error as its cause,
// with cancel, and after importTimeMax.
func (s *Service) beginImport(request context.Context) (
	ctx context.Context, cancel context.CancelCauseFunc, end func(), err error,
) {
	ctx, endOperation, err := s.begin(context.WithoutCancel(request))
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancelTime := context.WithTimeoutCause(ctx, importTimeMax, errImportTooLong)
	ctx, cancel = context.WithCancelCause(ctx)
	stop := context.AfterFunc(request, func() {
		if cause, ok := errors.AsType[*plant.Error](context.Cause(request)); ok {
			cancel(cause)
		}
	})
	return ctx, cancel, func() {
		stop()
		cancel(nil)
		cancelTime()
		endOperation()
	}, nil
}

// importID matches the ids of imports, which are segments of paths.
var importID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// check checks the values, and sets a missing format.
func (n *NewImport) check() error {
	if !importID.MatchString(n.ID) || n.ID == "." || n.ID == ".." {
		return plant.InvalidQuery("the id of an import has 1 to 64 letters, digits, '.', '_' and '-'; got %.100q", n.ID)
	}
	if len(n.Name) > fileNameBytesMax {
		return plant.InvalidQuery("name has %d bytes; at most %d are allowed", len(n.Name), fileNameBytesMax)
	}
	detected, _, ok := dump.DetectPath(n.Name)
	if n.Format == "" && !ok {
		return plant.InvalidQuery("the format is unknown; send format=csv, jsonl or json, or a name that ends with one")
	}
	format, err := dump.ParseFormat(string(cmp.Or(n.Format, detected)))
	if err != nil {
		return plant.InvalidQuery("%.200v", err)
	}
	n.Format = format // ndjson is jsonl
	if _, err := importer.ParseReaction(string(n.OnConflict)); err != nil {
		return plant.InvalidQuery("%.200v", err)
	}
	if err := n.Options.Check(); err != nil {
		return plant.InvalidQuery("%v", err)
	}
	return nil
}

// add adds an import in a state, unless its id is in use or too many run.
func (l *imports) add(n NewImport, state string, cancel context.CancelCauseFunc) (*importJob, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := 0
	for _, j := range l.list {
		switch {
		case j.state.ID == n.ID && (!j.ended() || j.owner != n.Principal.TokenID):
			return nil, plant.Errorf(plant.CodeImportRunning, "the id %s is in use; use another one", n.ID)
		case state == ImportReceiving && !j.ended() && j.owner == n.Principal.TokenID:
			return nil, plant.Errorf(plant.CodeImportRunning,
				"this credential has an import that has not ended; continue or cancel it")
		case j.waits() || j.state.State == ImportReceiving:
			kept++
		}
	}
	if state == ImportReceiving && kept >= importsMax {
		return nil, plant.Errorf(plant.CodeImportRunning,
			"the server keeps %d files of other imports; wait until one of them has ended", importsMax)
	}
	l.list = slices.DeleteFunc(l.list, func(j *importJob) bool { return j.state.ID == n.ID })
	j := &importJob{
		owner: n.Principal.TokenID, cancel: cancel, done: make(chan struct{}), received: n.Received,
		rejects: newRejects(n.Format),
		state: Import{
			ID: n.ID, Name: n.Name, Format: n.Format, OnConflict: n.OnConflict, DryRun: n.DryRun,
			By: n.Principal.Name, StartedAt: time.Now().UTC(),
		},
	}
	if err := l.enter(j, state); err != nil {
		return nil, err
	}
	if n.Bytes >= 0 {
		j.state.Total = &n.Bytes
	}
	l.list = append(l.list, j)
	return j, nil
}

// enter changes the state of an import, unless too many imports use the store. The caller has locked mu.
func (l *imports) enter(j *importJob, state string) error {
	if l.retired {
		return errShutdown
	}
	running := 0
	for _, other := range l.list {
		switch {
		case !other.usesStore() || state == ImportReceiving:
		case other.owner == j.owner:
			return plant.Errorf(plant.CodeImportRunning, "this credential has a running import; wait for its end, or cancel it")
		default:
			running++
		}
	}
	if running >= importsMax {
		return plant.Errorf(plant.CodeImportRunning, "%d imports are running; wait for the end of one", importsMax)
	}
	j.state.State = state
	return nil
}

// end ends an import for good. Without a fault it is complete. The caller has locked mu.
func (l *imports) end(j *importJob, fault *plant.Error) {
	if j.kept != nil {
		j.kept.remove()
		j.kept = nil
	}
	if j.state.State != JobRunning { // the counts are those of a check
		j.state.Counts, j.rejects = importer.Counts{}, newRejects(j.state.Format)
	}
	j.state.State, j.state.EndedAt = JobComplete, time.Now().UTC()
	if fault != nil {
		j.state.State, j.state.Error = JobFailed, fault.Message
	}
	if fault == errImportCanceled || fault == errKeptTooLong {
		j.state.State = ImportCanceled
	}
	j.rejects.end()
	l.trim()
}

// find returns the import with an id that a principal may see. The caller has locked mu.
func (l *imports) find(id string, p auth.Principal) (*importJob, error) {
	for _, j := range l.list {
		if j.state.ID == id && j.visible(p) {
			return j, nil
		}
	}
	return nil, plant.Errorf(plant.CodeImportNotFound,
		"the server has no import with this id; until it ends, it keeps the last %d of each credential", importsKept)
}

// visible reports whether a principal may see an import: its own and, with the scope admin, all.
func (j *importJob) visible(p auth.Principal) bool {
	return j.owner == p.TokenID || p.Scopes.Has(auth.ScopeAdmin)
}

// snapshot returns the state of an import. The caller has locked mu.
func (j *importJob) snapshot() Import {
	i := j.state
	if !j.ended() && !j.waits() {
		i.Bytes = j.received()
	}
	if j.kept != nil {
		i.Check = j.kept.checks
	}
	i.RejectsKept, i.Rejects = j.rejects.kept, slices.Clone(j.rejects.first)
	return i
}

// Imports returns the imports that a principal may see, the newest first, without their rows and what was found.
func (s *Service) Imports(p auth.Principal) []Import {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	list := []Import{}
	for _, j := range slices.Backward(s.imports.list) {
		if j.visible(p) {
			i := j.snapshot()
			i.Rejects, i.First, i.Found, i.Own = nil, nil, nil, j.owner == p.TokenID
			list = append(list, i)
		}
	}
	return list
}

// ImportOf returns an import with the start of each of its first rejects.
func (s *Service) ImportOf(id string, p auth.Principal) (Import, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.find(id, p)
	if err != nil {
		return Import{}, err
	}
	return j.snapshot(), nil
}

// CancelImport ends the present step of an import, and waits for its end until ctx ends. After a check the import is
// ready again; any other step ends the import. An import that has ended stays as it is.
func (s *Service) CancelImport(ctx context.Context, id string, p auth.Principal) (Import, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.find(id, p)
	if err != nil {
		return Import{}, err
	}
	if j.waits() {
		s.imports.end(j, errImportCanceled)
		return j.snapshot(), nil
	}
	j.cancel(errImportCanceled)
	done := j.done
	s.imports.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.imports.mu.Lock()
	return j.snapshot(), nil
}

// Retire ends all imports and refuses further ones, while the server still responds.
func (s *Service) Retire() {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.retired = true
	for _, j := range s.imports.list {
		if j.waits() {
			s.imports.end(j, errShutdown)
		}
		j.cancel(errShutdown)
	}
}
