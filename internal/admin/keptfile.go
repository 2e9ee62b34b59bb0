package admin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/safefile"
)

// An import in steps is for a person, who sees what is in a file before it is stored. KeepFile receives the file,
// CheckImport finds out what an import would do, as often as the person changes the columns, and StartImport imports
// it. The last two run in the background, so nobody has to wait for them.
//
// The kept file has no name, so it disappears with the process. It is removed when the import ends, and after an hour
// without a step.

// The limits of kept files.
const (
	keptTimeMax = time.Hour // without a step
	keptFreeMin = 256 << 20 // bytes that stay free on the disk, for creates
	keptPart    = 4 << 20   // bytes that arrive between two looks at the free space
	rowsShown   = 8         // of LookAt
)

var (
	errKeptTooLong = plant.Errorf(plant.CodeImportStopped,
		"nobody continued the import for an hour, so its file was removed; choose it again")
	errKeptNoSpace = plant.Errorf(plant.CodeImportStopped,
		"the disk of the server has too little free space for this import: %d MiB must stay free", keptFreeMin>>20)
	errKeptFailed = plant.Errorf(plant.CodeStoreUnavailable,
		"the server could not keep the file; the log of the server has the cause")
)

// keptFile is the file of an import in steps.
type keptFile struct {
	file   *os.File // without a name
	size   int64
	expiry *time.Timer // stopped while a step runs

	options dump.Options // of the last check
	checks  int64        // number of the last complete check
}

// remove removes the file. Its readers fail.
func (k *keptFile) remove() {
	k.expiry.Stop()
	_ = k.file.Close() // nobody needs its content
}

// KeepFile receives the file of an import, which is ready then. It returns as Import does.
func (s *Service) KeepFile(ctx context.Context, n NewImport) (i Import, err error) {
	if _, _, ok := dump.DetectPath(n.Name); !ok {
		n.Format = cmp.Or(n.Format, dump.CSV)
	}
	n.OnConflict = importer.Report
	if err := n.check(); err != nil {
		return Import{}, err
	}
	ctx, cancel, end, err := s.beginImport(ctx)
	if err != nil {
		return Import{}, err
	}
	defer end()
	j, err := s.imports.add(n, ImportReceiving, cancel)
	if err != nil {
		return Import{}, err
	}
	var file *os.File
	err = errImportPanic // unless receive returns
	defer func() { i, err = s.endReceive(j, file, err) }()
	file, err = s.receive(ctx, n)
	return i, err
}

// receive stores the content of a file in a new one.
func (s *Service) receive(ctx context.Context, n NewImport) (*os.File, error) {
	from := n.File(ctx)
	defer from.Close()
	file, err := os.CreateTemp(s.config.TempDir, ".plantstore-import-*") // with mode 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil { // the file exists until it is closed
		return file, err
	}
	for {
		if err := s.checkSpace(); err != nil {
			return file, err
		}
		if _, err := io.CopyN(file, from, keptPart); errors.Is(err, io.EOF) {
			return file, nil
		} else if err != nil {
			return file, err
		}
	}
}

// checkSpace returns an error if the disk of kept files is nearly full.
func (s *Service) checkSpace() error {
	free, err := safefile.FreeBytes(cmp.Or(s.config.TempDir, os.TempDir()))
	if err == nil && free < s.keptFreeMin {
		return errKeptNoSpace
	}
	return err
}

// endReceive makes an import ready, or ends it after an error.
func (s *Service) endReceive(j *importJob, file *os.File, err error) (Import, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	defer close(j.done)
	var size int64
	if err == nil {
		size, err = file.Seek(0, io.SeekEnd)
	}
	if err == nil && s.imports.retired {
		err = errShutdown
	}
	if err != nil {
		if file != nil {
			_ = file.Close()
		}
		fault := s.keptError(err)
		j.state.Bytes = j.received()
		s.imports.end(j, fault)
		return j.snapshot(), fault
	}
	j.kept = &keptFile{file: file, size: size}
	j.kept.expiry = time.AfterFunc(keptTimeMax, func() { s.expire(j) })
	j.state.State, j.state.Bytes, j.state.Total = ImportReady, size, &size
	return j.snapshot(), nil
}

// keptError returns the error for a client after an error of KeepFile. The log has the cause of one of the disk.
func (s *Service) keptError(err error) *plant.Error {
	answer, ok := errors.AsType[*plant.Error](err)
	switch {
	case ok:
		return answer
	case errors.Is(err, context.Canceled): // by Close
		return errShutdown
	case errors.Is(err, io.ErrUnexpectedEOF):
		return plant.Errorf(plant.CodeBodyIncomplete, "the form ended before the end of its file; send it again")
	}
	s.log.Warn("could not keep the file of an import", "error", err)
	return errKeptFailed
}

// expire ends an import without a step.
func (s *Service) expire(j *importJob) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	if j.waits() {
		s.imports.end(j, errKeptTooLong)
	}
}

// ImportStep describes a step of an import whose file the server keeps.
type ImportStep struct {
	Principal auth.Principal // of the person; creates the plants
	By        audit.Origin
	// Valid returns an error if the credential is no longer valid, which ends the step.
	Valid func(context.Context) error
}

// LookAt returns the start of the file of an import that waits; nil: with the options of the last check, if any.
func (s *Service) LookAt(ctx context.Context, id string, p auth.Principal, o *dump.Options) (dump.Head, error) {
	s.imports.mu.Lock()
	j, err := s.imports.keptImport(id, p)
	if err != nil {
		s.imports.mu.Unlock()
		return dump.Head{}, err
	}
	kept, options := j.kept, j.kept.options
	kept.expiry.Reset(keptTimeMax)
	if o != nil {
		options = *o
	}
	if format, _, _ := dump.DetectPath(j.state.Name); format == dump.CSV {
		options.Format = format // JSON and JSON Lines differ in their first byte, and people confuse their names
	}
	s.imports.mu.Unlock()
	head, err := dump.Look(ctx, io.NewSectionReader(kept.file, 0, kept.size), within(options), rowsShown)
	if err != nil {
		return dump.Head{}, plant.Errorf(plant.CodeImportStopped, "%v", err)
	}
	return head, nil
}

// CheckImport starts a check of a file as LookAt has found it, with options. It stores nothing: its result has the
// counts of an import.
func (s *Service) CheckImport(id string, step ImportStep, o dump.Options) (Import, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.keptImport(id, step.Principal)
	if err != nil {
		return Import{}, err
	}
	j.kept.options = o
	return s.startStep(j, step, true)
}

// StartImport starts the import of a file as in a check, which must be its last one: the person has seen its result.
func (s *Service) StartImport(id string, step ImportStep, check int64) (Import, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.keptImport(id, step.Principal)
	if err != nil {
		return Import{}, err
	}
	if j.state.State != ImportChecked || check != j.kept.checks {
		return Import{}, plant.Errorf(plant.CodeImportRunning,
			"the file was checked again since, perhaps in another window; look at the result of the last check")
	}
	return s.startStep(j, step, false)
}

// keptImport is find for an import that waits for a step. The caller has locked mu.
func (l *imports) keptImport(id string, p auth.Principal) (*importJob, error) {
	j, err := l.find(id, p)
	switch {
	case err != nil:
		return nil, err
	case j.ended():
		return nil, plant.Errorf(plant.CodeImportStopped,
			"the import has ended, and its file was removed; choose the file again")
	case !j.waits():
		return nil, plant.Errorf(plant.CodeImportRunning, "the import runs; wait for its end, or cancel it")
	}
	return j, nil
}

// startStep starts a step in the background. The caller has locked imports.mu.
func (s *Service) startStep(j *importJob, step ImportStep, dry bool) (Import, error) {
	state := JobRunning
	if dry {
		state = ImportChecking
	}
	ctx, cancel, end, err := s.beginImport(context.Background())
	if err != nil {
		return Import{}, err
	}
	if err := s.imports.enter(j, state); err != nil {
		end()
		return Import{}, err
	}
	j.kept.expiry.Stop()
	read := &byteCount{} // of the file; reads are short, so they do not end with a context
	file := io.NopCloser(io.TeeReader(io.NewSectionReader(j.kept.file, 0, j.kept.size), read))
	n := NewImport{
		Format: j.kept.options.Format, Options: j.kept.options, OnConflict: importer.Report, DryRun: dry,
		File:      func(context.Context) io.ReadCloser { return file },
		Principal: step.Principal, By: step.By,
	}
	j.cancel, j.done, j.received = cancel, make(chan struct{}), read.Load
	j.rejects = newRejects(n.Format)
	j.state.Format, j.state.DryRun, j.state.Counts, j.state.Error = n.Format, dry, importer.Counts{}, ""
	go func() { // Close waits for end
		defer end()
		s.runStep(ctx, cancel, j, n, step.Valid)
	}()
	return j.snapshot(), nil
}

// byteCount is a writer that counts bytes.
type byteCount struct{ atomic.Int64 }

// Write implements io.Writer.
func (c *byteCount) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}

// runStep runs a step until its end.
func (s *Service) runStep(
	ctx context.Context, cancel context.CancelCauseFunc, j *importJob, n NewImport, valid func(context.Context) error,
) {
	var watching sync.WaitGroup
	watching.Go(func() { watchCredential(ctx, cancel, valid) }) // ends with ctx
	err := error(errImportPanic)                                // unless runImport returns
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("an import panicked", "panic", p, "stack", string(debug.Stack()))
		}
		cancel(nil)
		watching.Wait()
		if n.DryRun {
			s.endCheck(j, err)
			return
		}
		_, _ = s.endImport(ctx, j, n.By, err) // the state of the import has the error
	}()
	err = s.runImport(ctx, j, n)
}

// watchCredential ends a context with the error of valid.
func watchCredential(ctx context.Context, cancel context.CancelCauseFunc, valid func(context.Context) error) {
	const every = 500 * time.Millisecond // a revocation is in memory within 250 ms, and holds within a second
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := valid(ctx); err != nil {
				cancel(err)
			}
		}
	}
}

// endCheck makes an import wait for the next step, or ends it.
func (s *Service) endCheck(j *importJob, err error) {
	fault := s.importError(err)
	if header, ok := errors.AsType[*dump.HeaderError](err); ok {
		fault = plant.Errorf(plant.CodeImportStopped, "%v", header) // the page has the choices
	}
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	defer close(j.done)
	j.state.Bytes = j.kept.size
	if s.imports.retired {
		fault = errShutdown
	}
	if fault != nil && (fault == errShutdown || fault.Code == plant.CodeCredentialInvalid) {
		s.imports.end(j, fault)
		return
	}
	j.kept.expiry.Reset(keptTimeMax)
	j.rejects.end()
	j.state.State = ImportChecked
	j.kept.checks++
	if fault == errImportCanceled {
		j.state.State = ImportReady
	} else if fault != nil {
		j.state.State, j.state.Error = ImportReady, fault.Message
	}
}
