package backup

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/plant"
	"plantstore/internal/s3"
	"plantstore/internal/s3/s3test"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/store"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": s3test.AccessKey, "AWS_SECRET_ACCESS_KEY": s3test.SecretKey, "AWS_SESSION_TOKEN": "",
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_CONFIG_FILE": os.DevNull, "AWS_PROFILE": "",
		"HTTP_PROXY": "", "http_proxy": "", "ALL_PROXY": "", "all_proxy": "",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// newBucketRig returns a rig whose destination is a prefix of a bucket, behind a proxy. The directory of the rig has
// the objects.
func newBucketRig(t *testing.T) (*rig, *s3test.Server, *s3test.Proxy) {
	t.Helper()
	s, p, objects := newPrefix(t)
	return newRigAt(t, objects, Config{Destination: prefixAddress, S3: s3.Config{Endpoint: p.Endpoint}}), s, p
}

const prefixAddress = "s3://" + s3test.Bucket + "/plants"

// newPrefix returns a server with a bucket, a proxy of it, and the directory of the objects of prefixAddress.
func newPrefix(t *testing.T) (s *s3test.Server, p *s3test.Proxy, objects string) {
	t.Helper()
	s, err := s3test.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	p, err = s3test.NewProxy(t.Context(), s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	objects = filepath.Join(s.Dir, s3test.Bucket, "plants")
	if err := os.Mkdir(objects, 0o700); err != nil {
		t.Fatal(err)
	}
	return s, p, objects
}

// backupObjects returns the objects without the owner and the timeline.
func backupObjects(s *s3test.Server) (map[string]int64, error) {
	objects, err := s.Objects()
	maps.DeleteFunc(objects, func(key string, _ int64) bool { return strings.HasPrefix(key, "plants/p.") })
	return objects, err
}

// TestServiceInBucket tests the operations on a bucket.
func TestServiceInBucket(t *testing.T) {
	t.Parallel()
	r, s, _ := newBucketRig(t)
	testService(t, r, "upload", "download")
	if all, err := backupObjects(s); err != nil || len(all) > 0 {
		t.Errorf("objects %v, %v", all, err)
	}
}

// TestScheduleInBucket tests a scheduled backup, retention, and files that are no complete backups of the store.
func TestScheduleInBucket(t *testing.T) {
	t.Parallel()
	r, _, _ := newBucketRig(t)
	other := newRig(t)
	defer r.Close()
	oldest, older, bare, cut, foreign := r.nameAt(-9*time.Hour), r.nameAt(-8*time.Hour), r.nameAt(-7*time.Hour),
		r.nameAt(-6*time.Hour), r.nameAt(-5*time.Hour)
	r.copyAs(oldest)
	r.copyAs(older)
	r.write(bare, "half a backup")
	r.copyAs(cut)
	r.write(cut, "half a backup")
	other.dir = r.dir
	other.copyAs(foreign)
	r.Start()
	for len(r.Jobs()) == 0 || r.Jobs()[0].Ended.IsZero() {
		<-time.After(10 * time.Millisecond)
	}
	name := r.Jobs()[0].Backup
	for !r.log.contains("removed an old backup") {
		<-time.After(10 * time.Millisecond)
	}
	at := "s3://nursery-backups/plants/"
	r.want("at once", []string{older, bare, cut, foreign, name}, []string{
		"WARN ignored a file in the backup directory " + bare + ": " + at + bare +
			".json: the manifest is missing, so nothing shows whether the backup is complete",
		"WARN ignored a file in the backup directory " + cut + ": it has 13 bytes; its manifest has " + r.bytesOf(cut),
		"WARN ignored a file in the backup directory " + foreign +
			": it is a backup of another store; use a --backup-dir for each store",
		"INFO backup made " + name, "INFO removed an old backup " + oldest,
	}, r.Jobs()[0].Started, 0, 0)
	all, err := r.List(t.Context())
	var names []string
	for _, b := range all {
		if b.Fault == nil {
			names = append(names, b.Name)
		}
	}
	if diff := cmp.Diff([]string{name, older}, names); diff != "" || err != nil || len(all) != 5 {
		t.Errorf("List: %d, %v, complete, -want +got:\n%s", len(all), err, diff)
	}
	if err := r.Delete(t.Context(), foreign, admin); !errors.Is(err, errOtherStore) {
		t.Errorf("Delete of another store's backup: %v", err)
	}
	if _, err := r.Verify(t.Context(), oldest, admin); !errors.Is(err, ErrNotFound) {
		t.Errorf("Verify of a removed backup: %v", err)
	}
	info, err := os.Stat(filepath.Join(r.dir, older))
	if err != nil {
		t.Fatal(err)
	}
	r.write(older, strings.Repeat("x", int(info.Size()))) // another object of the same size
	j := r.end(r.Verify(t.Context(), older, admin))
	if !strings.HasPrefix(j.Error, "the backup is damaged: its SHA-256 is ") {
		t.Errorf("another object: %+v", j)
	}
	j = r.end(r.Drill(t.Context(), older, admin))
	if !strings.HasPrefix(j.Error, "the backup is damaged: ") {
		t.Errorf("drill of another object: %+v", j)
	}
	if err := os.Remove(filepath.Join(r.dir, older) + backupfile.ManifestSuffix); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), older, admin); !errors.Is(err, backupfile.ErrNoManifest) {
		t.Errorf("Verify without the manifest, which a list has read: %v", err)
	}
}

// TestBucketIsAway ends the connections to the server at many places of a backup. No unfinished backup is complete, and
// the next backup removes the parts that are left.
func TestBucketIsAway(t *testing.T) {
	t.Parallel()
	r, s, p := newBucketRig(t)
	defer r.Close()
	if err := r.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	complete := 0
	step := int64(4 << 10) // a backup sends less than 64 KiB and 10 requests of about 1 KiB
	if testing.Short() {
		step *= 4
	}
	for cutAfter := int64(0); complete < 2; cutAfter += step {
		p.CutAfter(cutAfter)
		j := r.end(r.MakeBackup(admin))
		p.Pass()
		all, err := r.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		listed := slices.ContainsFunc(all, func(b Backup) bool { return b.Name == j.Backup })
		stored := slices.ContainsFunc(all, func(b Backup) bool { return b.Name == j.Backup && b.Fault == nil })
		if stored != listed || j.Error == "" && !stored { // without the last response, the backup of an error is stored
			t.Errorf("after %d bytes: job %v, the backup is listed: %v, and complete: %v", cutAfter, j.Error, listed, stored)
		}
		if j.Error != "" && !strings.Contains(j.Error, "no response of the S3 server ") {
			t.Errorf("after %d bytes: %v", cutAfter, j.Error)
		}
		if stored {
			complete++
			if j := r.end(r.Drill(t.Context(), j.Backup, admin)); j.Error != "" {
				t.Errorf("after %d bytes: drill: %v", cutAfter, j.Error)
			}
		}
	}
	r.clean()
	uploads, err := r.to.(*bucket).AbortUploads(t.Context(), "", func(string) bool { return true })
	objects, errObjects := backupObjects(s)
	for key := range objects {
		if strings.HasSuffix(key, backupfile.ManifestSuffix) { // a lost connection can leave a manifest alone
			delete(objects, key)
		}
	}
	if err := errors.Join(err, errObjects); err != nil || len(uploads) > 0 || len(objects) != complete {
		t.Errorf("left: uploads %v, objects %v, %v; want %d backups", uploads, objects, err, complete)
	}
}

// TestBucketServerKilled kills the S3 server in the middle of an upload. A new server of the store aborts the upload.
func TestBucketServerKilled(t *testing.T) {
	t.Parallel()
	r, s, p := newBucketRig(t)
	fillStore(t, filepath.Join(r.config.Scratch, "p.db"))
	p.StallAfter(17 << 20) // within the second part
	made, err := r.MakeBackup(admin)
	if err != nil {
		t.Fatal(err)
	}
	for j := made; j.Step != "upload" || j.Done == 0; j, err = r.Job(made.ID) {
		if err != nil || !j.Ended.IsZero() {
			t.Fatalf("%+v, %v", j, err)
		}
		<-time.After(time.Millisecond)
	}
	s.Kill()
	r.Close() // as the server of the store, killed too, before it can abort the upload
	p.Pass()
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.log.newLines(t)

	c := r.config
	next := newRigAt(t, r.dir, Config{Destination: c.Destination, S3: c.S3})
	next.config.DB, next.path, next.archive.store = c.DB, r.path, r.archive.store
	defer next.Close()
	j := next.end(next.MakeBackup(admin))
	if j.Error != "" {
		t.Error(j.Error)
	}
	want := []string{"INFO removed an unfinished backup " + made.Backup, "INFO backup made " + j.Backup}
	if diff := cmp.Diff(want, next.log.newLines(t)); diff != "" {
		t.Errorf("log, -want +got:\n%s", diff)
	}
	all, err := next.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != j.Backup || all[0].Fault != nil {
		t.Errorf("List: %+v, %v", all, err)
	}
}

// TestBucketStoresManifestFirst shows that a backup appears after its manifest, and not without one.
func TestBucketStoresManifestFirst(t *testing.T) {
	t.Parallel()
	r, s, _ := newBucketRig(t)
	defer r.Close()
	requests, endpoint := newRequestLog(t, s)
	c := r.config
	logged := newRigAt(t, r.dir, Config{Destination: c.Destination, S3: s3.Config{Endpoint: endpoint}})
	defer logged.Close()
	requests.setRefuse(manualEnd + backupfile.ManifestSuffix)
	if j := logged.end(logged.MakeBackup(admin)); !strings.Contains(j.Error, "AccessDenied") {
		t.Errorf("the manifest is refused: %+v", j)
	}
	uploads, err := r.to.(*bucket).AbortUploads(t.Context(), "", func(string) bool { return true })
	objects, errObjects := backupObjects(s)
	if err := errors.Join(err, errObjects); err != nil || len(uploads) > 0 || len(objects) > 0 {
		t.Errorf("left: uploads %v, objects %v, %v", uploads, objects, err)
	}
	requests.setRefuse("")
	requests.newLines()
	j := logged.end(logged.MakeBackup(admin))
	lines := requests.newLines()
	manifest := slices.Index(lines, "PUT "+j.Backup+backupfile.ManifestSuffix)
	if j.Error != "" || manifest < 0 || !slices.Contains(lines[manifest:], "POST "+j.Backup) {
		t.Errorf("%v; the manifest is not stored before the end of the upload: %v", j.Error, lines)
	}
}

// TestBucketBreaksDownload drills a backup whose download breaks.
func TestBucketBreaksDownload(t *testing.T) {
	t.Parallel()
	r, _, p := newBucketRig(t)
	defer r.Close()
	fillStore(t, filepath.Join(r.config.Scratch, "p.db"))
	made := r.end(r.MakeBackup(admin))
	if made.Error != "" {
		t.Fatal(made.Error)
	}
	p.CutResponses(10 << 20)
	if j := r.end(r.Drill(t.Context(), made.Backup, admin)); j.Error != "" {
		t.Errorf("drill over connections that break: %v", j.Error)
	}
	p.CutResponses(16 << 10)
	j := r.end(r.Drill(t.Context(), made.Backup, admin))
	if !strings.Contains(j.Error, "no response of the S3 server ") {
		t.Errorf("drill without progress: %+v", j)
	}
}

// TestBucketFails tests the log and the metrics of a scheduled backup without a server, and the retry.
func TestBucketFails(t *testing.T) {
	t.Parallel()
	r, s, _ := newBucketRig(t)
	s.Kill()
	r.Start()
	for r.failed.Load() == 0 {
		<-time.After(10 * time.Millisecond)
	}
	r.Close()
	if lines := fmt.Sprint(r.log.newLines(t)); !strings.Contains(lines, "ERROR backup failed p-") {
		t.Errorf("log %s", lines)
	}
}

// requestLog forwards requests to an S3 server, each after a delay, and logs them.
type requestLog struct {
	http.Handler

	mu     sync.Mutex
	lines  []string // since the last call of newLines; guarded by mu
	refuse string   // suffix of the paths of requests that receive 403; guarded by mu
	keep   bool     // requests that remove something receive 403; guarded by mu
}

func newRequestLog(t *testing.T, s *s3test.Server) (l *requestLog, endpoint string) {
	t.Helper()
	l = &requestLog{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", s.Address, r.In.Host
	}}}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	return l, server.URL
}

// ServeHTTP implements http.Handler.
func (l *requestLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const delay = 5 * time.Millisecond
	<-time.After(delay)
	l.mu.Lock()
	l.lines = append(l.lines, r.Method+" "+path.Base(r.URL.Path))
	refuse := l.refuse != "" && strings.HasSuffix(r.URL.Path, l.refuse) ||
		l.keep && r.Method == http.MethodDelete
	l.mu.Unlock()
	if refuse {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	l.Handler.ServeHTTP(w, r)
}

// setRefuse sets the suffix of the paths of requests that receive 403.
func (l *requestLog) setRefuse(suffix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = suffix
}

// setKeep sets whether requests that remove something receive 403.
func (l *requestLog) setKeep(keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep = keep
}

// newLines returns the requests since the last call.
func (l *requestLog) newLines() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines, l.lines = l.lines, nil
	return lines
}

// TestBucketReadsManifestsOnce counts the requests for a bucket with 40 backups: the newest one needs the list and its
// own manifest, and no list reads a manifest again.
func TestBucketReadsManifestsOnce(t *testing.T) {
	t.Parallel()
	r, s, _ := newBucketRig(t)
	defer r.Close()
	requests, endpoint := newRequestLog(t, s)
	c := r.config
	slow := newRigAt(t, r.dir, Config{Destination: c.Destination, S3: s3.Config{Endpoint: endpoint}})
	slow.config.DB, slow.archive.store = c.DB, r.archive.store
	defer slow.Close()
	const backups = 40
	var newest, before string
	for i := range backups {
		newest, before = r.nameAt(time.Duration(i-backups)*time.Hour), newest
		r.copyAs(newest)
	}
	const list = "GET " + s3test.Bucket
	wantNewest := func(name string, want ...string) {
		t.Helper()
		b, err := slow.Newest(t.Context())
		if err != nil || b.Name != name || b.Manifest.Bytes != b.Bytes {
			t.Errorf("Newest: %+v, %v; want %s", b, err, name)
		}
		if diff := cmp.Diff(want, requests.newLines()); diff != "" {
			t.Errorf("Newest: requests, -want +got:\n%s", diff)
		}
	}
	wantNewest(newest, list, "GET "+newest+backupfile.ManifestSuffix)
	wantNewest(newest, list)
	for i, want := range []int{backups, 1} {
		all, err := slow.List(t.Context())
		if n := len(requests.newLines()); err != nil || len(all) != backups || all[0].Name != newest || n != want {
			t.Errorf("list %d: %d backups, %v, after %d requests; want %d", i, len(all), err, n, want)
		}
	}
	if err := removeBackup(t.Context(), slow.to, newest); err != nil {
		t.Fatal(err)
	}
	requests.newLines()
	wantNewest(before, list)
	if got := len(slow.archive.manifests); got != backups-1 {
		t.Errorf("%d manifests are in memory after a removal, want %d", got, backups-1)
	}
}

// TestBucketHidesManifest shows that an older backup is not the newest one if the request for a manifest fails.
func TestBucketHidesManifest(t *testing.T) {
	t.Parallel()
	r, s, _ := newBucketRig(t)
	defer r.Close()
	requests, endpoint := newRequestLog(t, s)
	c := r.config
	other := newRigAt(t, r.dir, Config{Destination: c.Destination, S3: s3.Config{Endpoint: endpoint}})
	other.config.DB, other.archive.store = c.DB, r.archive.store
	defer other.Close()
	if b, err := other.Newest(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("without a backup: %+v, %v", b, err)
	}
	older, newest, bare := r.nameAt(-3*time.Hour), r.nameAt(-2*time.Hour), r.nameAt(-time.Hour)
	r.copyAs(older)
	r.copyAs(newest)
	r.write(bare, "half a backup")
	requests.setRefuse(newest + backupfile.ManifestSuffix)
	if b, err := other.Newest(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("the request for a manifest fails: got %+v, %v", b, err)
	}
	requests.setRefuse("")
	if b, err := other.Newest(t.Context()); err != nil || b.Name != newest {
		t.Errorf("afterwards: %+v, %v; want %s", b, err, newest)
	}
}

// TestKeysWithoutDelete copies, merges, restores and verifies with keys that may not remove anything. The server asks
// for a removal once an hour, and reads no segment for it again.
func TestKeysWithoutDelete(t *testing.T) {
	t.Parallel()
	s, _, _ := newPrefix(t)
	requests, endpoint := newRequestLog(t, s)
	r := newCopyRigTo(t, prefixAddress, s3.Config{Endpoint: endpoint})
	log := r.logged()
	defer r.Close()
	requests.setKeep(true)
	r.acquire()
	for i := range 4 { // retention would remove two
		r.must(r.makeScheduled(time.Now().Add(time.Duration(i-4) * time.Minute)))
		r.acquire()
	}
	shipEach := func(n int) {
		for range n {
			r.create(1)
			r.ship()
		}
	}
	shipEach(1)
	at := time.Now()
	shipEach(5)
	later := time.Now().Add(3 * time.Hour)
	wantMerged := func(segments int) {
		t.Helper()
		r.must(r.mergeOld(t.Context(), later))
		if n := len(r.segments()); n < segments || n > segments+1 { // the test may run at the end of an hour
			t.Errorf("%d segments, want %d", n, segments)
		}
	}
	wantMerged(7)
	requests.newLines()
	wantMerged(7)
	r.removeOld()
	for _, line := range requests.newLines() {
		if strings.HasSuffix(line, ".commits.zst") || strings.HasPrefix(line, "POST") || strings.HasPrefix(line, "DELETE") {
			t.Errorf("a request after a refusal: %s", line)
		}
	}
	shipEach(3)
	wantMerged(11) // all in another one
	r.wantRestored(time.Time{}, 9)
	r.wantRestored(at, 1)
	v, err := r.archive.Verify(t.Context(), nil)
	if err != nil || len(v.Faults) > 0 || v.Backups != 4 || v.Segments > 2 { // not those that a merged one replaces
		t.Errorf("verified %+v, %v", v, err)
	}

	requests.setRefuse(scheduledEnd + backupfile.ManifestSuffix) // leaves an upload
	if err := r.makeScheduled(time.Now()); err == nil {
		t.Error("a backup without its manifest")
	}
	requests.setRefuse("")
	for i := range 2 {
		r.acquire()
		r.must(r.makeScheduled(time.Now().Add(time.Duration(i+1) * time.Second)))
	}
	var warnings []string
	for _, line := range log.newLines(t) {
		if strings.HasPrefix(line, "WARN") {
			warnings = append(warnings, line[:min(len(line), 40)])
		}
	}
	want := []string{"WARN the keys may not remove old backups", "WARN could not remove unfinished backups"}
	if diff := cmp.Diff(want, warnings); diff != "" || testutil.ToFloat64(r.notRemoved) != 1 {
		t.Errorf("%v not removed; log, -want +got:\n%s", testutil.ToFloat64(r.notRemoved), diff)
	}

	requests.setKeep(false)
	r.refusedAt = r.refusedAt.Add(-refusedWait)
	wantMerged(1)
	r.removeOld()
	if all, err := r.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("%d backups, %v", len(all), err)
	}
	r.wantRestored(time.Time{}, 9)

	// As a lifecycle rule does, long after the start of the server.
	r.must(r.Service.to.delete(t.Context(), r.names.ownerName(), r.names.timelineName(r.ownTimeline())))
	r.create(1)
	if err := r.copier.ship(t.Context()); !errors.Is(err, errNoOwner) {
		t.Errorf("without the owner: %v", err)
	}
	r.create(1)
	r.ship()
	r.wantRestored(time.Time{}, 11)
}

// fillStore stores plants of about 20 MB, so that an upload has two parts.
func fillStore(t *testing.T, path string) {
	t.Helper()
	e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var batch []store.Create
	for id := range int64(5000) {
		name := strings.Repeat(fmt.Sprint(id), 1000)
		p := plant.NewPlant{ID: id, Plant: plant.Plant{Name: name}}
		batch = append(batch, store.Create{Plant: p, At: time.Unix(0, 0)})
	}
	_, err = e.Insert(t.Context(), batch)
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
}
