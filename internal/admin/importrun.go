package admin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// runImport imports the plants of a file, and keeps the counts in the state of the import.
func (s *Service) runImport(ctx context.Context, j *importJob, n NewImport) error {
	rejected := 0
	n.Options.Format = n.Format
	var sorting *importer.Sorting // an import stores rows in the order of the file, while it arrives
	if n.DryRun {
		sorting = &importer.Sorting{Dir: s.config.TempDir, Memory: importSortMemory}
	}
	setCounts := func(c importer.Counts) {
		s.imports.mu.Lock()
		defer s.imports.mu.Unlock()
		j.state.Counts = c
	}
	result, err := importer.Run(ctx, importer.Config{
		Source: n.File, OnConflict: n.OnConflict, By: n.Principal.TokenID,
		BatchRows: importBatchRows, BatchBytes: importBatchMax,
		Options: within(n.Options),
		Found: func(f dump.Found) {
			s.imports.mu.Lock()
			defer s.imports.mu.Unlock()
			f.Header = nil // long, and nobody needs it now
			j.state.Found = &f
		},
		DryRun: n.DryRun, Sort: sorting,
		Insert: func(batch []store.Create) ([]store.Outcome, error) { return s.insertImported(ctx, batch) },
		Stored: func(ids []int64, bytesMax int) ([]store.Row, error) {
			rows, err := s.engine.PlantsByID(ctx, ids, bytesMax)
			if err != nil {
				err = s.unreadable(err)
			}
			return rows, err
		},
		ShowStored: n.Principal.Scopes.Has(auth.ScopeRead),
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
			setCounts(p.Counts)
			if n.DryRun {
				if err := s.checkSpace(); err != nil { // sorting needs space too
					j.cancel(err)
				}
			}
			if s.clientsWrite() {
				pause(ctx, p.Took)
			}
		},
	})
	setCounts(result.Counts)
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j.state.First = result.First
	return err
}

// within returns options with the limits of imports.
func within(o dump.Options) dump.Options {
	o.RowMax, o.PlantMax, o.RatioMax = importRowMax, importPlantMax, importRatioMax
	return o
}

// insertImported stores a batch, even after ctx has ended.
func (s *Service) insertImported(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeMax)
	defer cancel()
	return s.config.WritePath.Import(within, batch)
}

// endImport stores the result of an import, and records it in the audit log.
func (s *Service) endImport(ctx context.Context, j *importJob, by audit.Origin, err error) (Import, error) {
	result := "complete"
	fault := s.importError(err)
	switch {
	case fault == nil:
	case fault == errImportCanceled, fault.Code == plant.CodeShuttingDown, fault.Code == plant.CodeBodyIncomplete,
		fault.Code == plant.CodeRequestTimeout, fault.Code == plant.CodeCredentialInvalid:
		result = "interrupted"
	default:
		result = "failed"
	}
	counts := j.state.Counts // only this goroutine changes them
	if !j.state.DryRun {
		s.recordImport(ctx, j.state.Name, by, result, counts)
	}
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j.state.Bytes = j.received()
	s.imports.end(j, fault)
	close(j.done)
	if fault == nil {
		return j.snapshot(), nil
	}
	if _, refused := errors.AsType[*dump.HeaderError](err); refused || j.state.DryRun { // no row is stored
		return j.snapshot(), fault
	}
	return j.snapshot(), plant.Errorf(fault.Code,
		"%s; created %d, existing %d, conflicting %d, invalid %d; stored rows count as existing when you import again",
		fault.Message, counts.Created, counts.Existing, counts.Conflicting, counts.Invalid)
}

// trim removes ended imports above the limits. The caller has locked mu.
func (l *imports) trim() {
	for l.removeAbove(importsKept, importsKeptMax, func(*importJob) int { return 1 }) ||
		l.removeAbove(l.rejectsMax, l.rejectsMax, (*importJob).rejectsBytes) {
	}
}

// removeAbove removes the oldest ended import of the credential with the most if its sum of sizes is above own, or the
// sum of all credentials is above all. So no credential removes the results of another one that has fewer.
func (l *imports) removeAbove(own, all int, size func(*importJob) int) bool {
	of, sum, most := map[int64]int{}, 0, 0
	for _, j := range l.list {
		if j.ended() {
			of[j.owner] += size(j)
			sum += size(j)
			most = max(most, of[j.owner])
		}
	}
	if most <= own && sum <= all {
		return false
	}
	var first *importJob
	for _, j := range l.list {
		if j.ended() && of[j.owner] == most &&
			(first == nil || j.state.EndedAt.Before(first.state.EndedAt)) {
			first = j
		}
	}
	l.list = slices.DeleteFunc(l.list, func(j *importJob) bool { return j == first })
	return true
}

func (j *importJob) rejectsBytes() int { return j.rejects.rowsFile.Len() + j.rejects.reportFile.Len() }

// recordImport records an import in the audit log. The first one of a credential has its entry before its response.
func (s *Service) recordImport(ctx context.Context, name string, by audit.Origin, result string, c importer.Counts) {
	s.config.Audit.Collect(audit.Event{
		Time: time.Now(), Action: audit.PlantsImport, Origin: by,
		Details: []audit.Detail{{Key: "result", Value: result}, {Key: "file", Value: name}},
	},
		audit.Sum{Key: "created", N: c.Created}, audit.Sum{Key: "existing", N: c.Existing},
		audit.Sum{Key: "conflicting", N: c.Conflicting}, audit.Sum{Key: "invalid", N: c.Invalid})
	s.config.Audit.Flush(context.WithoutCancel(ctx))
}

// importError returns the error for a client after the end of an import; nil if it is complete. The log has the cause
// of a failure of the store.
func (s *Service) importError(err error) *plant.Error {
	failed, inStore := errors.AsType[*importer.StoreError](err)
	answer, known := errors.AsType[*plant.Error](err)
	header, isHeader := errors.AsType[*dump.HeaderError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrClosed):
		return errShutdown
	case errors.Is(err, errUnreadable): // in a check
		return errUnreadable
	case inStore:
		s.log.Warn("import failed", "error", failed)
		stopped := fmt.Sprintf("the import stopped before the lines %d to %d:", failed.First, failed.Last)
		return store.ClientError(failed, stopped, stopped+" the store failed, and the rows may be stored")
	case known:
		return answer
	case errors.Is(err, context.Canceled): // by Close
		return errShutdown
	case isHeader:
		return plant.Errorf(plant.CodeImportStopped, "%v; %s", err, chooseColumns(header.Likely))
	case errors.Is(err, importer.ErrConflict):
		err = fmt.Errorf("%w; to continue after such rows, report them (on_conflict=report)", err)
	}
	return plant.Errorf(plant.CodeImportStopped, "%v", err)
}

// chooseColumns returns the advice on a file whose columns are not clear: the likely ones as parameters of the API.
func chooseColumns(likely dump.Options) string {
	query := url.Values{}
	if likely.Columns["name"] == "" {
		query.Set("name_column", "COLUMN")
	}
	for ours, theirs := range likely.Columns {
		if !strings.EqualFold(strings.TrimSpace(theirs), ours) {
			query.Set(ours+"_column", theirs)
		}
	}
	if len(likely.IDFrom) > 0 {
		query.Set("id_from", strings.Join(likely.IDFrom, ","))
	}
	if likely.NumberFrom != nil {
		query.Set("number_from", strconv.FormatInt(*likely.NumberFrom, 10))
	}
	if likely.Encoding != "" {
		query.Set("encoding", likely.Encoding)
	}
	return "choose the columns, for example with the parameters " + query.Encode()
}
