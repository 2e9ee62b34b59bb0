package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// newFile describes an import of a text.
func newFile(owner int64, id, text string) admin.NewImport {
	return admin.NewImport{
		ID: id, Name: id + ".csv", Bytes: -1, Principal: auth.Principal{TokenID: owner},
		File:     func(context.Context) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) },
		Received: func() int64 { return int64(len(text)) },
	}
}

func step(owner int64) admin.ImportStep {
	return admin.ImportStep{
		Principal: auth.Principal{TokenID: owner}, Valid: func(context.Context) error { return nil },
	}
}

// await returns an import that waits for a step or has ended.
func await(t *testing.T, s *admin.Service, id string, owner int64) admin.Import {
	t.Helper()
	for {
		i, err := s.ImportOf(id, auth.Principal{TokenID: owner})
		if err != nil {
			t.Fatal(err)
		}
		if i.State != admin.ImportChecking && i.State != admin.JobRunning {
			return i
		}
	}
}

func wantCode(t *testing.T, what string, err error, code plant.Code) {
	t.Helper()
	if e, ok := errors.AsType[*plant.Error](err); !ok || e.Code != code {
		t.Errorf("%s: got %v, want %d", what, err, code)
	}
}

// A person sees the columns of a file, chooses them, checks twice, and then imports what the last check counted.
func TestImportInSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	service, _ := open(t, admin.Config{TempDir: dir},
		create(1, "Rosa canina", plant.Tag{}), create(2, "Quercus", plant.Tag{}))
	const text = "nr;Scientific name;family\n1;Rosa canina;Rosaceae\n2;Quercus robur;Fagaceae\n3;Salix alba;\nx;Acer;\n"
	i, err := service.KeepFile(t.Context(), newFile(1, "a", text))
	if err != nil || i.State != admin.ImportReady || i.Bytes != int64(len(text)) {
		t.Fatalf("got %+v, %v", i, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the file has a name: %v, %v", entries, err)
	}
	principal := auth.Principal{TokenID: 1}
	head, err := service.LookAt(t.Context(), "a", principal, nil)
	if err != nil || len(head.Rows) != 4 || head.Found.Columns["name"] != "Scientific name" {
		t.Fatalf("got %+v, %v", head, err)
	}
	options := dump.Options{Format: head.Found.Format, Columns: map[string]string{"id": "family", "name": "nr", "tag": ""}}
	for _, columns := range []map[string]string{
		{"id": "family", "name": "nr", "tag": ""}, {"id": "nr", "name": "Scientific name", "tag": ""},
	} {
		options.Columns = columns
		if _, err := service.CheckImport("a", step(1), options); err != nil {
			t.Fatal(err)
		}
		i = await(t, service, "a", 1)
	}
	want := importer.Counts{Created: 1, Existing: 1, Conflicting: 1, Invalid: 1}
	if i.State != admin.ImportChecked || i.Counts != want || i.Check != 2 {
		t.Fatalf("check: got %+v", i)
	}
	if _, err := service.Plant(t.Context(), 3); err == nil {
		t.Error("a check stored a plant")
	}
	if file, _, err := service.RejectsOf("a", principal, true); err != nil {
		t.Error(err)
	} else if report, err := io.ReadAll(file); err != nil || !strings.Contains(string(report), "x;Acer;") {
		t.Errorf("report of the check: %q, %v", report, err)
	}
	_, err = service.StartImport("a", step(1), 1)
	wantCode(t, "import as in the first check", err, plant.CodeImportRunning)
	if _, err := service.StartImport("a", step(1), 2); err != nil {
		t.Fatal(err)
	}
	if i = await(t, service, "a", 1); i.State != admin.JobComplete || i.Counts != want {
		t.Errorf("import: got %+v", i)
	}
	if _, err := service.Plant(t.Context(), 3); err != nil {
		t.Error(err)
	}
	_, err = service.LookAt(t.Context(), "a", principal, nil)
	wantCode(t, "the file after the import", err, plant.CodeImportStopped)
	_, err = service.StartImport("a", step(1), 2)
	wantCode(t, "another import", err, plant.CodeImportStopped)
}

// A credential keeps one file, and a server two. No credential sees the file of another one.
func TestKeptFiles(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{})
	for owner, id := range map[int64]string{1: "a", 2: "b"} {
		if _, err := service.KeepFile(t.Context(), newFile(owner, id, "id,name\n")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := service.KeepFile(t.Context(), newFile(1, "c", "id,name\n"))
	wantCode(t, "second file of a credential", err, plant.CodeImportRunning)
	_, err = service.KeepFile(t.Context(), newFile(3, "c", "id,name\n"))
	wantCode(t, "third file", err, plant.CodeImportRunning)
	_, err = service.LookAt(t.Context(), "a", auth.Principal{TokenID: 2}, nil)
	wantCode(t, "look at another one's file", err, plant.CodeImportNotFound)
	_, err = service.CheckImport("a", step(2), dump.Options{})
	wantCode(t, "check of another one's file", err, plant.CodeImportNotFound)
	_, err = service.StartImport("a", step(1), 0)
	wantCode(t, "import without a check", err, plant.CodeImportRunning)
	api := newFile(1, "d", "id,name\n5,A\n")
	api.OnConflict = importer.Fail
	if _, err := service.Import(t.Context(), api); err != nil {
		t.Errorf("import by the API beside a kept file: %v", err)
	}
	i, err := service.CancelImport(t.Context(), "a", auth.Principal{TokenID: 1})
	if err != nil || i.State != admin.ImportCanceled {
		t.Errorf("cancel: got %+v, %v", i, err)
	}
	if _, err := service.KeepFile(t.Context(), newFile(1, "c", "id,name\n")); err != nil {
		t.Errorf("after the cancellation: %v", err)
	}
	service.Retire()
	if i := await(t, service, "c", 1); i.State != admin.JobFailed || !strings.Contains(i.Error, "shutting down") {
		t.Errorf("at shutdown: got %+v", i)
	}
}

// A file that would fill the disk, or whose upload ends early, is not kept.
func TestFileIsNotKept(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{})
	n := newFile(1, "a", "")
	reason := plant.Errorf(plant.CodeBodyIncomplete, "cut")
	n.File = func(context.Context) io.ReadCloser { return io.NopCloser(&failing{reason}) }
	i, err := service.KeepFile(t.Context(), n)
	wantCode(t, "interrupted upload", err, plant.CodeBodyIncomplete)
	if i.State != admin.JobFailed || i.Error != "cut" {
		t.Errorf("got %+v", i)
	}
	arrived, canceled := make(chan struct{}), make(chan error)
	n = newFile(1, "b", "")
	n.File = func(ctx context.Context) io.ReadCloser {
		close(arrived)
		<-ctx.Done()
		return io.NopCloser(&failing{context.Cause(ctx)})
	}
	go func() { // ends with the cancellation
		_, err := service.KeepFile(t.Context(), n)
		canceled <- err
	}()
	<-arrived
	if i, err := service.CancelImport(t.Context(), "b", n.Principal); err != nil || i.State != admin.ImportCanceled {
		t.Errorf("canceled upload: got %+v, %v", i, err)
	}
	wantCode(t, "canceled upload", <-canceled, plant.CodeImportStopped)
	service.SetKeptFreeMin(1 << 62)
	_, err = service.KeepFile(t.Context(), newFile(1, "c", "id,name\n"))
	wantCode(t, "full disk", err, plant.CodeImportStopped)
	if err == nil || !strings.Contains(err.Error(), "free space") {
		t.Errorf("full disk: got %v", err)
	}
}

// failing is a file whose reads fail.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// A kept file is removed an hour after the last step.
func TestKeptFileExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, err := admin.New(admin.Config{Engine: stuck{}})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		if _, err := service.KeepFile(t.Context(), newFile(1, "a", "id,name\n1,A\n")); err != nil {
			t.Fatal(err)
		}
		state := func(after time.Duration) string {
			time.Sleep(after) //nolint:forbidigo // the clock of synctest
			synctest.Wait()
			i, err := service.ImportOf("a", auth.Principal{TokenID: 1})
			if err != nil {
				t.Fatal(err)
			}
			return i.State
		}
		if got := state(59 * time.Minute); got != admin.ImportReady {
			t.Errorf("within the hour: got %s", got)
		}
		if _, err := service.LookAt(t.Context(), "a", auth.Principal{TokenID: 1}, nil); err != nil {
			t.Error(err)
		}
		if got := state(59 * time.Minute); got != admin.ImportReady {
			t.Errorf("within an hour after a look: got %s", got)
		}
		if got := state(2 * time.Minute); got != admin.ImportCanceled {
			t.Errorf("after the hour: got %s", got)
		}
	})
}

// slowEngine is an engine whose inserts wait.
type slowEngine struct {
	*sqlite.Engine
	wait chan struct{}
}

func (e *slowEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	<-e.wait
	return e.Engine.Insert(ctx, batch)
}

// The end of the credential ends an import in the background, after its batch.
func TestEndOfCredentialEndsImport(t *testing.T) {
	t.Parallel()
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "plants.db"), Server: true})
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowEngine{engine, make(chan struct{})}
	path, err := writepath.New(t.Context(), writepath.Config{Engine: slow})
	if err != nil {
		t.Fatal(err)
	}
	service, err := admin.New(admin.Config{Engine: slow, WritePath: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		service.Close()
		path.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	var rows strings.Builder
	rows.WriteString("id,name\n")
	for id := range 3000 {
		fmt.Fprintf(&rows, "%d,Rosa\n", id)
	}
	if _, err := service.KeepFile(t.Context(), newFile(1, "a", rows.String())); err != nil {
		t.Fatal(err)
	}
	if _, err := service.CheckImport("a", step(1), dump.Options{}); err != nil {
		t.Fatal(err)
	}
	if i := await(t, service, "a", 1); i.Created != 3000 || len(i.First) != 5 {
		t.Fatalf("check: got %+v", i)
	}
	s := step(1)
	s.Valid = func(ctx context.Context) error {
		context.AfterFunc(ctx, func() { close(slow.wait) })
		return plant.Errorf(plant.CodeCredentialInvalid, "revoked")
	}
	if _, err := service.StartImport("a", s, 1); err != nil {
		t.Fatal(err)
	}
	if i := await(t, service, "a", 1); i.State != admin.JobFailed || i.Created != 1000 || i.Error != "revoked" {
		t.Errorf("got %+v", i)
	}
}
