package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// runImport imports the plants of a file.
func (s *Service) runImport(ctx context.Context, j *importJob, n NewImport) (importer.Counts, error) {
	rejected := 0
	return importer.Run(ctx, importer.Config{
		Source: n.File, Format: n.Format, OnConflict: n.OnConflict, By: n.Principal.TokenID,
		BatchRows: importBatchRows, BatchBytes: importBatchMax, RowMax: importRowMax, PlantMax: importPlantMax,
		RatioMax: importRatioMax,
		Insert:   func(batch []store.Create) ([]store.Outcome, error) { return s.insertImported(ctx, batch) },
		Rejected: func(r importer.Reject) error {
			s.imports.mu.Lock()
			defer s.imports.mu.Unlock()
			j.rejects.add(r)
			if !r.Conflict || n.OnConflict != importer.Skip {
				rejected++
			}
			if rejected > s.rejectsMax {
				return fmt.Errorf("more than %d rows are invalid or conflict with stored plants; correct the file", s.rejectsMax)
			}
			return nil
		},
		KeepRaw: true,
		Progress: func(p importer.Progress) {
			s.imports.mu.Lock()
			j.state.Counts = p.Counts
			s.imports.mu.Unlock()
			if s.store != nil && s.store.Writing() { // clients go first
				pause(ctx, p.Took)
			}
		},
	})
}

// insertImported stores a batch, also after the end of ctx.
func (s *Service) insertImported(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeMax)
	defer cancel()
	if s.store == nil {
		return s.engine.Insert(within, batch)
	}
	return s.store.Import(within, batch)
}

// endImport stores the result of an import and records it in the audit log.
func (s *Service) endImport(
	ctx context.Context, j *importJob, by audit.Origin, counts importer.Counts, err error,
) (Import, error) {
	state, result := JobComplete, "complete"
	refusal := s.importError(ctx, err)
	switch {
	case refusal == nil:
	case refusal == errImportCanceled:
		state, result = ImportCanceled, "interrupted"
	case refusal.Code == plant.CodeShuttingDown, refusal.Code == plant.CodeBodyIncomplete,
		refusal.Code == plant.CodeRequestTimeout, refusal.Code == plant.CodeCredentialInvalid:
		state, result = JobFailed, "interrupted"
	default:
		state, result = JobFailed, "failed"
	}
	s.recordImport(ctx, j.state.Name, by, result, counts)
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j.state.Bytes = j.received()
	j.state.Counts, j.state.State, j.state.EndedAt = counts, state, time.Now().UTC()
	j.rejects.end()
	close(j.done)
	s.imports.trim()
	if refusal == nil {
		return j.snapshot(), nil
	}
	j.state.Error = refusal.Message
	return j.snapshot(), &plant.Error{Code: refusal.Code, Message: fmt.Sprintf(
		"%s; created %d, existing %d, conflicting %d, invalid %d; stored rows count as existing when you import again",
		refusal.Message, counts.Created, counts.Existing, counts.Conflicting, counts.Invalid,
	)}
}

// trim forgets the oldest imports that have ended. The caller has locked mu.
func (l *imports) trim() {
	ended := 0
	for i := len(l.list) - 1; i >= 0; i-- {
		if l.list[i].state.State == JobRunning {
			continue
		}
		if ended++; ended > importsKept {
			l.list = append(l.list[:i], l.list[i+1:]...)
		}
	}
}

// recordImport appends an entry to the audit log, also after the end of ctx.
func (s *Service) recordImport(
	ctx context.Context, name string, by audit.Origin, result string, c importer.Counts,
) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeMax)
	defer cancel()
	details := []audit.Detail{{Key: "file", Value: name}, {Key: "result", Value: result}}
	for _, count := range []struct {
		key string
		n   int64
	}{{"created", c.Created}, {"existing", c.Existing}, {"conflicting", c.Conflicting}, {"invalid", c.Invalid}} {
		details = append(details, audit.Detail{Key: count.key, Value: strconv.FormatInt(count.n, 10)})
	}
	err := s.engine.AppendAudit(ctx, audit.Event{
		Time: time.Now(), Action: audit.PlantsImport, Origin: by, Details: details,
	})
	if err != nil {
		s.log.Error("the audit log has no entry about an import", "error", err)
	}
}

// importError returns the error for a client after the end of an import; nil if it is complete.
func (s *Service) importError(ctx context.Context, err error) *plant.Error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		err = cause
		if errors.Is(err, context.Canceled) {
			err = errShutdown()
		}
	}
	var refusal *plant.Error
	var failure *importer.StoreError
	switch {
	case errors.As(err, &failure):
		return s.importFailure(failure)
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, importer.ErrConflict):
		err = fmt.Errorf("%w; to continue after such rows, report them (on_conflict=report)", err)
	}
	return &plant.Error{Code: plant.CodeImportStopped, Message: err.Error()}
}

// importFailure returns the error for a client after the store failed. The log has the cause.
func (s *Service) importFailure(failure *importer.StoreError) *plant.Error {
	code, reason := plant.CodeStoreUnavailable, "the store is unavailable"
	switch {
	case errors.Is(failure, store.ErrFull):
		code, reason = plant.CodeStoreFull, "the disk of the store is full"
	case errors.Is(failure, store.ErrReadOnly):
		code, reason = plant.CodeStoreReadOnly, "a move makes the store read-only"
	case errors.Is(failure, store.ErrClosed):
		return errShutdown()
	case errors.Is(failure, store.ErrOutcomeUnknown), errors.Is(failure, store.ErrBroken):
		code, reason = plant.CodeOutcomeUnknown, "the store failed, and the rows may be stored"
	}
	s.log.Warn("import failed", "error", failure)
	return &plant.Error{
		Code:    code,
		Message: fmt.Sprintf("the import stopped before the lines %d to %d: %s", failure.First, failure.Last, reason),
	}
}
