package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/s3"
	"plantstore/internal/s3/s3test"
)

func startProxy(t *testing.T, s *s3test.Server) *s3test.Proxy {
	t.Helper()
	p, err := s3test.NewProxy(t.Context(), s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// upload uploads 40 MiB and returns the error.
func upload(t *testing.T, b *s3.Bucket) error {
	t.Helper()
	text := randomBytes(40 << 20)
	return b.Upload(t.Context(), "p-1", bytes.NewReader(text), int64(len(text)), noProgress, ready)
}

// wantNothing tests that a server has no object and no unfinished upload.
func wantNothing(t *testing.T, b *s3.Bucket) {
	t.Helper()
	all, err := b.List(t.Context(), "")
	if err != nil || len(all) > 0 {
		t.Errorf("objects %v, %v", all, err)
	}
	aborted, err := b.AbortUploads(t.Context(), "", func(string) bool { return true })
	if err != nil || len(aborted) > 0 {
		t.Errorf("unfinished uploads %v, %v", aborted, err)
	}
}

func wantError(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %s", name, err, want)
	}
}

// TestConfiguration tests the messages for errors of the configuration, which the server reports.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for name, test := range map[string]struct {
		config s3.Config
		bucket string
		want   string
	}{
		"a missing bucket": {
			s3.Config{Endpoint: s.Endpoint},
			"no-such-bucket",
			"s3://no-such-bucket/p-1: the bucket does not exist on " + s.Endpoint + "; create it or change the address",
		},
		"another region": {
			s3.Config{Endpoint: s.Endpoint, Region: "eu-west-1"},
			s3test.Bucket,
			"the S3 server " + s.Endpoint + " returned AuthorizationHeaderMalformed (400): ",
		},
		"no server": {
			s3.Config{Endpoint: "http://127.0.0.1:1"},
			s3test.Bucket,
			"s3://nursery-backups/p-1: no response of the S3 server http://127.0.0.1:1: " +
				"dial tcp 127.0.0.1:1: connect: connection refused",
		},
		"a bucket in the endpoint": {
			s3.Config{Endpoint: "http://nursery-backups.s3.invalid"},
			s3test.Bucket,
			"no response of the S3 server http://nursery-backups.s3.invalid: dial tcp: lookup nursery-backups.s3.invalid",
		},
		"TLS to a server without it": {
			s3.Config{Endpoint: "https://" + s.Address},
			s3test.Bucket,
			"http: server gave HTTP response to HTTPS client",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, name, upload(t, open(t, test.config, test.bucket)), test.want)
		})
	}
	for _, c := range []s3.Config{
		{Endpoint: "ftp://x"},
		{Endpoint: "http://key:secret@x"},
		{Endpoint: "https://x/path"},
		{Endpoint: "%"},
		{CAFile: "missing.pem"},
		{CAFile: os.DevNull},
	} {
		if _, err := s3.Open(c, s3test.Bucket); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestKeys tests wrong keys, keys of the shared file, and missing ones. It changes the environment.
func TestKeys(t *testing.T) {
	s := startServer(t)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
	wantError(t, "wrong secret", upload(t, b), "returned SignatureDoesNotMatch (403): ")
	t.Setenv("AWS_ACCESS_KEY_ID", "another-key")
	if err := b.CheckKeys(t.Context()); err != nil {
		t.Error(err)
	}
	wantError(t, "unknown key", upload(t, b), ": No user exists with the provided access key ID")

	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if err := b.CheckKeys(t.Context()); !errors.Is(err, s3.ErrNoKeys) {
		t.Errorf("without keys: %v", err)
	}
	if err := upload(t, b); !errors.Is(err, s3.ErrNoKeys) {
		t.Errorf("upload without keys: %v", err)
	}
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"malformed":       {"[default]\naws_secret_access_key canary", s3.ErrNoKeys},
		"half":            {"[default]\naws_secret_access_key = canary", s3.ErrNoKeys},
		"another profile": {"[other]\naws_access_key_id = a\naws_secret_access_key = canary", s3.ErrNoKeys},
		"right": {
			"[default]\naws_access_key_id = " + s3test.AccessKey + "\naws_secret_access_key = " + s3test.SecretKey, nil,
		},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := b.CheckKeys(t.Context())
		if !errors.Is(err, test.want) || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s file: %v", name, err)
		}
		if err := b.Put(t.Context(), "object", []byte("text")); !errors.Is(err, test.want) {
			t.Errorf("%s file: %v", name, err)
		}
	}
}

// TestFIFO refuses FIFOs with keys or certificates, which have a writer for one read only. It changes the environment.
func TestFIFO(t *testing.T) {
	s := startServer(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		written <- os.WriteFile(fifo, []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b"), 0)
	}()
	const want = " is a FIFO, and is read more than once; use a regular file"
	if _, err := s3.Open(s3.Config{CAFile: fifo}, s3test.Bucket); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("certificates: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	check := func(name string) {
		err := b.CheckKeys(t.Context())
		if !errors.Is(err, s3.ErrNoKeys) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"} {
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
		t.Setenv(name, fifo)
		check(name)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "")
	t.Setenv("AWS_CONFIG_FILE", "")
	if err := os.Mkdir(filepath.Join(home, ".aws"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"credentials", "config"} {
		path := filepath.Join(home, ".aws", name)
		if err := os.Symlink(fifo, path); err != nil {
			t.Fatal(err)
		}
		check(name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0) // ends the write
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestServerAway uploads to a server that is away at first, or goes away in the middle of an upload and returns.
func TestServerAway(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := startProxy(t, s)
	b := open(t, s3.Config{Endpoint: p.Endpoint}, s3test.Bucket)
	for name, bytes := range map[string]int64{"at first": 0, "in the first part": 5 << 20, "in the last part": 35 << 20} {
		p.CutAfter(bytes)
		wantError(t, name, upload(t, b), "s3://nursery-backups/p-1: no response of the S3 server "+p.Endpoint)
		p.Pass()
		aborted, err := b.AbortUploads(t.Context(), "p-", func(string) bool { return true })
		if len(aborted) > 1 || err != nil {
			t.Errorf("%s: AbortUploads: %v, %v", name, aborted, err)
		}
		wantNothing(t, b)
	}
	if err := upload(t, b); err != nil {
		t.Errorf("after its return: %v", err)
	}
}

// TestServerFull uploads to a server whose disk becomes full in the middle.
func TestServerFull(t *testing.T) {
	t.Parallel()
	s, err := s3test.StartSmall(t.Context(), 24)
	if errors.Is(err, s3test.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, s)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	wantError(t, "full", upload(t, b), "s3://nursery-backups/p-1: the S3 server "+s.Endpoint+" returned ")
	wantNothing(t, b)
	if err := b.Put(t.Context(), "small", []byte("text")); err != nil {
		t.Errorf("after the upload: %v", err)
	}
}

// TestCanceledUpload tests that a canceled upload leaves nothing.
func TestCanceledUpload(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	ctx, cancel := context.WithCancel(t.Context())
	text := randomBytes(40 << 20)
	err := b.Upload(ctx, "p-1", bytes.NewReader(text), int64(len(text)), func(done, _ int64) {
		if done > 20<<20 { // within the upload
			cancel()
		}
	}, ready)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	wantNothing(t, b)
}

// TestHostileServer tests that the errors do not repeat the secrets that a server returns, and are short.
func TestHostileServer(t *testing.T) {
	const token = "canary-session-token"
	t.Setenv("AWS_SESSION_TOKEN", token)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>InvalidToken</Code><Message>%s %s\n\t %s</Message></Error>",
			r.Header.Get("X-Amz-Security-Token"), s3test.SecretKey, strings.Repeat("long", 1000))
	}))
	defer s.Close()
	b := open(t, s3.Config{Endpoint: s.URL}, s3test.Bucket)
	err := upload(t, b)
	wantError(t, "hostile", err, "check the keys and their expiry")
	if text := err.Error(); strings.Contains(text, token) || strings.Contains(text, s3test.SecretKey) ||
		strings.ContainsAny(text, "\n\t") || len(text) > 1000 {
		t.Errorf("the error has %d bytes: %q", len(text), text)
	}
}

// TestEndlessList tests that a list ends before the server does, which returns a token and the same key 1000 times.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	pages := atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		next := "<NextContinuationToken>more</NextContinuationToken>"
		if pages.Add(1) > 1000 {
			next = ""
		}
		fmt.Fprint(w, "<ListBucketResult><Contents><Key>p-1</Key></Contents>"+next+"</ListBucketResult>")
	}))
	t.Cleanup(s.Close)
	all, err := open(t, s3.Config{Endpoint: s.URL}, s3test.Bucket).List(t.Context(), "p-")
	wantError(t, "list", err, "s3://nursery-backups/p-: the S3 server "+s.URL+" did not end the list within 100 pages "+
		"without further keys")
	if n := pages.Load(); n > 102 || all != nil {
		t.Errorf("%d pages, %v", n, all)
	}
}

// TestLongList lists more objects than a client keeps in memory.
func TestLongList(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const objectsMax, pageMax = 500_000, 50_000
	var left atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<ListBucketResult>")
		n := min(left.Load(), pageMax)
		for i := range n {
			fmt.Fprintf(w, "<Contents><Key>p-%d</Key></Contents>", left.Load()-i)
		}
		if left.Add(-n) > 0 {
			fmt.Fprint(w, "<NextContinuationToken>more</NextContinuationToken>")
		}
		fmt.Fprintf(w, "<IsTruncated>%v</IsTruncated></ListBucketResult>", left.Load() > 0)
	}))
	t.Cleanup(s.Close)
	left.Store(objectsMax + 1)
	_, err := open(t, s3.Config{Endpoint: s.URL}, s3test.Bucket).List(t.Context(), "p-")
	wantError(t, "list", err, "s3://nursery-backups/p- has more than 500000 objects; use another prefix")
}

// TestEndlessResponse tests that a client reads a part of a response that doesn't end.
func TestEndlessResponse(t *testing.T) {
	t.Parallel()
	const bytesMax = 64 << 20 // several times the limit and what the system buffers
	sent := make(chan int, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, piece := 0, bytes.Repeat([]byte("<"), 64<<10)
		for err := error(nil); err == nil && n < bytesMax; n += len(piece) {
			_, err = w.Write(piece)
		}
		sent <- n
	}))
	t.Cleanup(s.Close)
	if all, err := open(t, s3.Config{Endpoint: s.URL}, s3test.Bucket).List(t.Context(), "p-"); err == nil {
		t.Errorf("got %v", all)
	}
	if n := <-sent; n >= bytesMax {
		t.Errorf("the server sent all of %d bytes", n)
	}
}

// TestListEnds lists the objects of servers whose pages say in their own ways whether the list is complete.
func TestListEnds(t *testing.T) {
	t.Parallel()
	const (
		one, two = "<Contents><Key>p-1</Key></Contents>", "<Contents><Key>p-2</Key></Contents>"
		three    = "<Contents><Key>p-3</Key></Contents>"
		more     = "<IsTruncated>true</IsTruncated>"
		end      = "<IsTruncated>false</IsTruncated>"
		token    = "<NextContinuationToken>next</NextContinuationToken>"
		// The answer to version 1, whose next page begins after a marker.
		version1 = "<Name>nursery-backups</Name><Marker></Marker><NextMarker>p-1</NextMarker>"
		refused  = "ended the list without saying that it is complete; use a server with version 2 of ListObjects"
	)
	for name, test := range map[string]struct {
		pages []string
		want  string // error; empty: the keys of all pages
	}{
		"two pages":                 {[]string{one + more + token, two + end}, ""},
		"a first page without keys": {[]string{more + token, one + more + token, two + end}, ""},
		"a token on the last page":  {[]string{one + end + token, two + end + token, end + token}, ""},
		"a key on two pages":        {[]string{one + two + more + token, two + end}, ""},
		"without order":             {[]string{two + more + token, one + end}, ""},
		"a token on each page without order": {
			[]string{three + end + token, one + end + token, two + end + token, end + token}, "",
		},
		"version 1, whole":            {[]string{"<Marker></Marker>" + one + two + end}, ""},
		"version 1, more":             {[]string{version1 + one + more}, refused},
		"more without a token":        {[]string{one + more}, refused},
		"more without a token, later": {[]string{one + more + token, more}, refused},
		"neither":                     {[]string{one + two}, refused},
		"an end without a meaning":    {[]string{one + "<IsTruncated>maybe</IsTruncated>"}, "is not from an S3 server"},
		"a page that was cut":         {[]string{one + end + "<"}, "is not from an S3 server"},
	} {
		page := atomic.Int64{}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n := min(int(page.Add(1)), len(test.pages))
			fmt.Fprint(w, "<ListBucketResult>"+test.pages[n-1]+"</ListBucketResult>")
		}))
		t.Cleanup(s.Close)
		all, err := open(t, s3.Config{Endpoint: s.URL}, s3test.Bucket).List(t.Context(), "p-")
		if test.want != "" {
			wantError(t, name, err, test.want)
			continue
		}
		want := []s3.Object{{Key: "p-1"}, {Key: "p-2"}, {Key: "p-3"}}
		if !slices.Contains(test.pages, three+end+token) {
			want = want[:2]
		}
		if diff := cmp.Diff(want, all); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got:\n%s", name, err, diff)
		}
	}
}

// TestListOfAnotherServer lists the objects of a server that returns a page of its own with status 200.
func TestListOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html><body>Sign in</body></html>")
	}))
	t.Cleanup(s.Close)
	all, err := open(t, s3.Config{Endpoint: s.URL}, s3test.Bucket).List(t.Context(), "p-")
	wantError(t, "list", err, "the response is not from an S3 server")
	if all != nil {
		t.Errorf("got %v", all)
	}
}

// TestUploadUnknown tests the error for a server that does not know the upload when it is completed, as for the second
// request after a lost response.
func TestUploadUnknown(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	endpoint := otherServer(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !r.URL.Query().Has("uploadId") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchUpload</Code><Message>No such upload.</Message></Error>")
		return true
	})
	b := open(t, s3.Config{Endpoint: endpoint}, s3test.Bucket)
	wantError(t, "unknown", upload(t, b), "s3://nursery-backups/p-1: the S3 server "+endpoint+" has no such upload: ")
	wantNothing(t, b)
}

// otherServer is a server that forwards requests with changes.
func otherServer(t *testing.T, s *s3test.Server, change func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if change(w, r) {
			return
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", s.Address, ""
		response, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		maps.Copy(w.Header(), response.Header)
		w.WriteHeader(response.StatusCode)
		_, _ = bytes.NewBuffer(nil).ReadFrom(r.Body)
		buf := &bytes.Buffer{}
		_, _ = buf.ReadFrom(response.Body)
		_, _ = w.Write(buf.Bytes())
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// TestObjectLock stores objects on a server that requires a checksum of each body in a header, as for a bucket with
// Object Lock and a default retention.
func TestObjectLock(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	endpoint := otherServer(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || r.Header.Get("Content-Md5") != "" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<Error><Code>InvalidRequest</Code><Message>Content-MD5 is required.</Message></Error>")
		return true
	})
	b := open(t, s3.Config{Endpoint: endpoint}, s3test.Bucket)
	if err := errors.Join(upload(t, b), b.Put(t.Context(), "small", []byte("text"))); err != nil {
		t.Error(err)
	}
}
