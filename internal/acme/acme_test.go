package acme_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/acme"
	"plantstore/internal/certs/certstest"
)

func TestCheckDomain(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"plants.example": true, "localhost": true, "xn--pflnzchen-z2a.example": true, "a-b.9.example": true,
		"": false, "Plants.example": false, "plants.example.": false, "*.plants.example": false, "plants..example": false,
		"-plants.example": false, "192.0.2.1": true, "2001:db8::1": true, "2001:DB8::1": false, "fe80::1%eth0": false,
		"::ffff:192.0.2.1": false, "2001:db8:0:0::1": false, "192.0.2.01": false, "[2001:db8::1]": false,
		"plants.example:443": false, "../plants": false, "plants/../x": false, "pflänzchen.example": false,
		"plants example": false, "a\n.example": false,
		strings.Repeat("a", 64) + ".example": false, strings.Repeat("a.", 100) + "aaa": false,
	} {
		if err := acme.CheckDomain(name); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %t", name, err, ok)
		}
	}
}

func TestCheckEmailAndDirectory(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"operator@plants.example": true, "": false, "operator": false, "Op <operator@plants.example>": false,
		"a@b.example,c@d.example": false, "a@b.example\r\nX: y": false,
	} {
		if err := acme.CheckEmail(text); (err == nil) != ok {
			t.Errorf("e-mail %q: %v, want ok %t", text, err, ok)
		}
	}
	for text, ok := range map[string]bool{
		acme.LetsEncrypt: true, "https://ca.plants.example:9000/acme/acme/directory": true,
		"": false, "http://ca.plants.example/directory": false, "ca.plants.example": false, "https:///directory": false,
		"https://user:secret@ca.plants.example/": false, "https://ca.plants.example/#x": false,
	} {
		if err := acme.CheckDirectory(text); (err == nil) != ok {
			t.Errorf("directory %q: %v, want ok %t", text, err, ok)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		1: 5 * time.Minute, 2: 10 * time.Minute, 4: 40 * time.Minute, 5: time.Hour, 1000: time.Hour,
	} {
		got := acme.Backoff(5*time.Minute, failures, time.Hour)
		if got < want || got > want+want/10+1 {
			t.Errorf("after %d failures: %v, want %v to a tenth more", failures, got, want)
		}
	}
}

func TestFileStorage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store-acme")
	storage, err := acme.NewFileStorage(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if value, err := storage.Load(ctx, "account.json"); value != nil || err != nil {
		t.Errorf("a missing value: %q, %v, want nothing", value, err)
	}
	for _, value := range []string{"first", "second"} {
		if err := storage.Save(ctx, "account.json", []byte(value)); err != nil {
			t.Fatal(err)
		}
		if got, err := storage.Load(ctx, "account.json"); err != nil || string(got) != value {
			t.Errorf("got %q, %v, want %q", got, err, value)
		}
	}
	for name, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, "account.json"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %v", name, info.Mode(), err, want)
		}
	}
	for range 2 { // the second time, there is no value
		if err := storage.Delete(ctx, "account.json"); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Load(ctx, "large"); err == nil {
		t.Error("a file of 3 MiB was loaded")
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Load(ctx, "fifo"); err == nil {
		t.Error("a FIFO was loaded")
	}
}

func TestFileStorageLocks(t *testing.T) {
	t.Parallel()
	storage := newStorage(t)
	unlock, locked, err := storage.TryLock(t.Context())
	if err != nil || !locked {
		t.Fatalf("the first lock: %t, %v", locked, err)
	}
	if _, locked, err := storage.TryLock(t.Context()); err != nil || locked {
		t.Errorf("a second lock: %t, %v, want false", locked, err)
	}
	unlock()
	unlock, locked, err = storage.TryLock(t.Context())
	if err != nil || !locked {
		t.Fatalf("after the unlock: %t, %v", locked, err)
	}
	unlock()
}

func TestFileStorageRefusesUnsafeDirectories(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	open, file := filepath.Join(parent, "open"), filepath.Join(parent, "file")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		open: "run chmod 700", file: "not a directory", filepath.Join(parent, "missing", "store-acme"): "no such file",
	} {
		if _, err := acme.NewFileStorage(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

// countingStorage counts the reads.
type countingStorage struct {
	acme.Storage
	loads atomic.Int64
}

func (s *countingStorage) Load(ctx context.Context, key string) ([]byte, error) {
	s.loads.Add(1)
	return s.Storage.Load(ctx, key)
}

// storedChallenge is the stored form of an open challenge for localhost.
const storedChallenge = `{"type":"tls-alpn-01","url":"https://ca.example/1","status":"pending","token":"abc",` +
	`"keyAuthorization":"abc.def","identifier":{"type":"dns","value":"localhost"}}`

// challengeHello is the handshake of a CA that checks the challenge for localhost.
func challengeHello() *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: localhost, SupportedProtos: []string{acme.Protocol}}
}

// Clients cannot cause a read of the storage with each handshake. The challenge of another replica is found.
func TestChallengesOfReplicas(t *testing.T) {
	t.Parallel()
	storage := &countingStorage{Storage: newStorage(t)}
	source := acme.New(t.Context(), acme.Config{
		Domains: []string{localhost}, Email: "operator@plants.example", Directory: acme.LetsEncrypt, Storage: storage,
	})
	hello := challengeHello()
	before, began := storage.loads.Load(), time.Now()
	for range 10_000 {
		if _, err := source.GetCertificate(hello); err == nil {
			t.Fatal("a handshake for a challenge succeeded without an order")
		}
	}
	if got, most := storage.loads.Load()-before, int64(time.Since(began)/(250*time.Millisecond))+1; got > most {
		t.Errorf("%d reads, want at most %d", got, most)
	}
	save := func(challenge string) {
		if err := storage.Save(t.Context(), "challenge.json", []byte(challenge)); err != nil {
			t.Fatal(err)
		}
	}
	save(storedChallenge)
	await(t, func() error {
		_, err := source.GetCertificate(hello)
		return err
	})
	hello.SupportedProtos = []string{acme.Protocol, "http/1.1"}
	if _, err := source.GetCertificate(hello); !errors.Is(err, acme.ErrNoCertificate) {
		t.Errorf("a client with two protocols: %v, want ErrNoCertificate", err)
	}
	save(`{"identifier":`)
	hello.SupportedProtos = []string{acme.Protocol}
	await(t, func() error {
		if _, err := source.GetCertificate(hello); err == nil {
			return errors.New("a damaged challenge has a response")
		}
		return nil
	})
}

// slowStorage returns values that are a second old.
type slowStorage struct{ acme.Storage }

func (s slowStorage) Load(ctx context.Context, key string) ([]byte, error) {
	value, err := s.Storage.Load(ctx, key)
	<-time.After(time.Second)
	return value, err
}

// A slow read of the storage does not hide a challenge that another replica stored after the begin of the read. The
// other replica waits for 500 ms before the CA validates.
func TestChallengeDuringSlowRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := newStorage(t)
		source := acme.New(t.Context(), acme.Config{
			Domains: []string{localhost}, Email: "operator@plants.example", Directory: acme.LetsEncrypt,
			Storage: slowStorage{storage},
		})
		read := make(chan error)
		go func() {
			_, err := source.GetCertificate(challengeHello())
			read <- err
		}()
		<-time.After(500 * time.Millisecond)
		if err := storage.Save(t.Context(), "challenge.json", []byte(storedChallenge)); err != nil {
			t.Fatal(err)
		}
		if <-read == nil {
			t.Error("the first read returned the challenge, so the test shows nothing")
		}
		if _, err := source.GetCertificate(challengeHello()); err != nil {
			t.Errorf("500 ms after the challenge was stored: %v", err)
		}
	})
}

// failingStorage fails to load when it is told to.
type failingStorage struct {
	acme.Storage
	fails atomic.Bool
}

func (s *failingStorage) Load(ctx context.Context, key string) ([]byte, error) {
	if s.fails.Load() {
		return nil, errors.New("the database is unavailable")
	}
	return s.Storage.Load(ctx, key)
}

// A server answers its own challenge even if the storage fails while the CA validates.
func TestChallengeWhileTheStorageFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := &failingStorage{Storage: newStorage(t)}
		source := acme.New(t.Context(), acme.Config{
			Domains: []string{localhost}, Email: "operator@plants.example", Directory: acme.LetsEncrypt, Storage: storage,
		})
		if err := source.Present(t.Context(), localhost); err != nil {
			t.Fatal(err)
		}
		storage.fails.Store(true)
		<-time.After(time.Minute)
		if _, err := source.GetCertificate(challengeHello()); err != nil {
			t.Error(err)
		}
	})
}

// A CA that answers with garbage, with a gigabyte, with redirects without an end or with URLs without TLS does not stop
// the Source and does not grow it.
func TestHostileCA(t *testing.T) {
	t.Parallel()
	const gigabyte = 1 << 30
	for name, test := range map[string]struct {
		respond http.HandlerFunc
		want    string // in the log
	}{
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("\x00{]"))
		}, "invalid character"},
		"empty object": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{}"))
		}, "required directory fields are missing"},
		"gigabyte": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			page := bytes.Repeat([]byte(" "), 1<<20)
			for range gigabyte / len(page) {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		}, "larger than 1048576 bytes"},
		"long error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<19))
		}, "xxxx"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusFound)
		}, "stopped after 10 redirects"},
		"no TLS": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/", http.StatusFound)
		}, "not https"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewTLSServer(test.respond)
			defer server.Close()
			transport := server.Client().Transport.(*http.Transport)
			var log logBuffer
			source := acme.New(t.Context(), acme.Config{
				Domains: []string{localhost}, Email: "operator@plants.example", Directory: server.URL + "/directory",
				Storage: newStorage(t), Log: slog.New(slog.NewTextHandler(&log, nil)),
			}.WithRoots(transport.TLSClientConfig.RootCAs))
			source.Hasten()
			source.Start(t.Context())
			defer source.Close()
			await(t, func() error {
				if text := log.String(); strings.Count(text, "certificate order failed") < 2 || !strings.Contains(text, test.want) {
					return fmt.Errorf("the log lacks %q: %.2000s", test.want, text)
				}
				return nil
			})
			for line := range strings.Lines(log.String()) {
				if len(line) > 1000 {
					t.Errorf("a line of %d bytes", len(line))
				}
			}
		})
	}
}

// fakeCA is a CA that responds with its directory, with nonces, and with the handlers of a test by path.
func fakeCA(t *testing.T, handlers map[string]http.HandlerFunc) (directory string, roots *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Replay-Nonce", "bm9uY2U")
		for path, handle := range handlers {
			if strings.HasPrefix(r.URL.Path, path) {
				handle(w, r)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"newNonce":"https://%[1]s/nonce","newAccount":"https://%[1]s/account",`+
			`"newOrder":"https://%[1]s/order","renewalInfo":"https://%[1]s/renewal"}`, r.Host)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/directory", server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}

// refusal responds with the problem of a rate limit.
func refusal(retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many","status":429}`))
	}
}

// The CA can postpone the next order, by a day at most, and cannot have it earlier.
func TestRetryAfterOfTheCA(t *testing.T) {
	t.Parallel()
	date := time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat)
	for name, row := range map[string]struct {
		value       string
		least, most time.Duration // until the next order
	}{
		"seconds":  {"7200", 2 * time.Hour, 2*time.Hour + time.Minute},
		"date":     {date, 2*time.Hour + 50*time.Minute, 3 * time.Hour},
		"none":     {"", 5 * time.Minute, 6 * time.Minute},
		"shorter":  {"1", 5 * time.Minute, 6 * time.Minute},
		"a year":   {"31536000", 24 * time.Hour, 24*time.Hour + time.Minute},
		"too long": {"99999999999999999999", 5 * time.Minute, 6 * time.Minute},
		"text":     {"soon", 5 * time.Minute, 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, roots := fakeCA(t, map[string]http.HandlerFunc{"/account": refusal(row.value)})
			storage := newStorage(t)
			source := acme.New(t.Context(), acme.Config{
				Domains: []string{localhost}, Email: "operator@plants.example", Directory: directory, Storage: storage,
			}.WithRoots(roots))
			began := time.Now()
			source.Start(t.Context())
			defer source.Close()
			var failures struct {
				NotBefore time.Time `json:"not_before"`
			}
			await(t, func() error {
				text, err := storage.Load(t.Context(), "failures-localhost.json")
				return errors.Join(err, json.Unmarshal(text, &failures))
			})
			most := row.most + time.Since(began) // the pause begins at the failure
			if got := failures.NotBefore.Sub(began); got < row.least || got > most {
				t.Errorf("the next order is in %s, want %s to %s", got, row.least, most)
			}
		})
	}
}

// A pause of years is from a time when the clock was wrong.
func TestStoredPauseThatIsTooLong(t *testing.T) {
	t.Parallel()
	orders := make(chan struct{}, 100)
	directory, roots := fakeCA(t, map[string]http.HandlerFunc{"/account": func(w http.ResponseWriter, r *http.Request) {
		orders <- struct{}{}
		refusal("")(w, r)
	}})
	storage := newStorage(t)
	saveFailure(t, storage, localhost, time.Now().AddDate(10, 0, 0))
	source := acme.New(t.Context(), acme.Config{
		Domains: []string{localhost}, Email: "operator@plants.example", Directory: directory, Storage: storage,
	}.WithRoots(roots))
	source.Start(t.Context())
	defer source.Close()
	select {
	case <-orders:
	case <-time.After(time.Minute):
		t.Error("the Source does not order")
	}
}

// A damaged account is replaced. The log has nothing of it.
func TestDamagedAccount(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"email":`, `{"email":"operator@plants.example","key":"c2VjcmV0"}`, `{"key":"%"}`, "[]",
	} {
		registered := make(chan struct{}, 100)
		directory, roots := fakeCA(t, map[string]http.HandlerFunc{"/account": func(w http.ResponseWriter, r *http.Request) {
			registered <- struct{}{}
			refusal("")(w, r)
		}})
		storage := newStorage(t)
		if err := storage.Save(t.Context(), "account.json", []byte(text)); err != nil {
			t.Fatal(err)
		}
		var log logBuffer
		source := acme.New(t.Context(), acme.Config{
			Domains: []string{localhost}, Email: "operator@plants.example", Directory: directory, Storage: storage,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}.WithRoots(roots))
		source.Start(t.Context())
		<-registered
		source.Close()
		if text := log.String(); !strings.Contains(text, "the stored ACME account is not usable") ||
			strings.Contains(text, "secret") || strings.Contains(text, "c2VjcmV0") {
			t.Errorf("log: %s", text)
		}
	}
}

// saveCertificate stores a certificate for localhost.
func saveCertificate(t *testing.T, storage acme.Storage, directory string) {
	t.Helper()
	authority, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := authority.Issue(certstest.Leaf{})
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat([]byte("Directory: "+directory+"\n"), key, certificate)
	if err := storage.Save(t.Context(), "certificate-localhost.pem", text); err != nil {
		t.Fatal(err)
	}
}

// The CA says when to read the renewal window again (RFC 9773 section 4.3.2).
func TestRetryAfterOfTheRenewalWindow(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	directory, roots := fakeCA(t, map[string]http.HandlerFunc{"/renewal/": func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"suggestedWindow":{"start":%q,"end":%q}}`, time.Now().Add(20*time.Hour).Format(time.RFC3339),
			time.Now().Add(21*time.Hour).Format(time.RFC3339))
	}})
	storage := &countingStorage{Storage: newStorage(t)}
	saveCertificate(t, storage, directory)
	source := acme.New(t.Context(), acme.Config{
		Domains: []string{localhost}, Email: "operator@plants.example", Directory: directory, Storage: storage,
	}.WithRoots(roots))
	source.Hasten() // a visit loads the certificate, and reads the window again after a second
	source.Start(t.Context())
	defer source.Close()
	await(t, func() error {
		if requests.Load() == 0 || storage.loads.Load() < 8 {
			return errors.New("the Source does not read the window, or visits the domain too rarely")
		}
		return nil
	})
	if got := requests.Load(); got != 1 {
		t.Errorf("%d requests for the window, want 1", got)
	}
}

func TestCloseBeforeStart(t *testing.T) {
	t.Parallel()
	acme.New(t.Context(), acme.Config{
		Domains: []string{localhost}, Email: "operator@plants.example", Directory: acme.LetsEncrypt, Storage: newStorage(t),
	}).Close()
}

// lockedStorage is the storage of replicas while another one orders.
type lockedStorage struct{ acme.Storage }

// TryLock implements acme.Storage.
func (lockedStorage) TryLock(context.Context) (unlock func(), locked bool, err error) {
	return nil, false, nil
}

// A replica uses a certificate that another one has ordered, while that one orders the next.
func TestCertificateWhileAnotherReplicaOrders(t *testing.T) {
	t.Parallel()
	ca, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		const directory = "https://127.0.0.1:1/directory"
		storage := lockedStorage{newStorage(t)}
		source := acme.New(t.Context(), acme.Config{
			Domains: []string{localhost, "other.example"}, Email: "operator@plants.example", Directory: directory,
			Storage: storage,
		})
		source.Start(t.Context())
		defer source.Close()
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		now := time.Now()
		cert, key, err := ca.Issue(certstest.Leaf{
			DNSNames: []string{localhost}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(90 * 24 * time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		text := slices.Concat([]byte("Directory: "+directory+"\n"), key, cert)
		if err := storage.Save(t.Context(), "certificate-"+localhost+".pem", text); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := source.GetCertificate(&tls.ClientHelloInfo{ServerName: localhost}); err != nil {
			t.Error(err)
		}
	})
}
