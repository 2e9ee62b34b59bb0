package certs_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/certs"
	"plantstore/internal/certs/certstest"
)

// fixture is a pair of files and a log.
type fixture struct {
	t         *testing.T
	authority *certstest.Authority
	cert, key string
	log       bytes.Buffer
	metrics   *prometheus.Registry
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	authority, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &fixture{
		t: t, authority: authority, cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"),
		metrics: prometheus.NewRegistry(),
	}
}

func (f *fixture) write(l certstest.Leaf) {
	f.t.Helper()
	if err := f.authority.Write(l, f.cert, f.key); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) put(file, content string) {
	f.t.Helper()
	if err := certstest.Replace(file, []byte(content)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) open() (*certs.Pair, error) {
	return certs.OpenPair(f.cert, f.key, slog.New(slog.NewJSONHandler(&f.log, nil)), f.metrics)
}

func (f *fixture) mustOpen() *certs.Pair {
	f.t.Helper()
	p, err := f.open()
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// poll checks files several times, in a bubble of synctest.
func poll(files interface{ Check() }, times int) {
	for range times {
		<-time.After(certs.CheckEvery)
		files.Check()
	}
}

// messages returns the lines of the log since the last call.
func (f *fixture) messages() (lines []string) {
	f.t.Helper()
	defer f.log.Reset()
	for text := range strings.Lines(f.log.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, l["level"].(string)+" "+l["msg"].(string))
	}
	return lines
}

func (f *fixture) wantMessages(want ...string) {
	f.t.Helper()
	if got := f.messages(); !slices.Equal(got, want) {
		f.t.Errorf("log: got %q, want %q", got, want)
	}
}

func nameOf(t *testing.T, p *certs.Pair) string {
	t.Helper()
	c, err := p.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.Subject.CommonName
}

const (
	loaded  = "INFO TLS certificate loaded"
	refused = "ERROR could not load the new TLS certificate; the previous one stays in use"
)

func TestReload(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(f *fixture){
		"rename": func(f *fixture) { f.write(certstest.Leaf{Name: "second", RSA: true}) },
		"overwrite": func(f *fixture) {
			cert, key, err := f.authority.Issue(certstest.Leaf{Name: "second"})
			if err = errors.Join(err, os.WriteFile(f.cert, cert, 0o600), os.WriteFile(f.key, key, 0o600)); err != nil {
				f.t.Fatal(err)
			}
		},
		"symbolic link": func(f *fixture) { // as Kubernetes and certbot
			dir := f.t.TempDir()
			cert, key := filepath.Join(dir, "c"), filepath.Join(dir, "k")
			err := errors.Join(f.authority.Write(certstest.Leaf{Name: "second"}, cert, key),
				os.Remove(f.cert), os.Remove(f.key), os.Symlink(cert, f.cert), os.Symlink(key, f.key))
			if err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.write(certstest.Leaf{Name: "first"})
				p := f.mustOpen()
				f.wantMessages(loaded)
				poll(p, 3)
				f.wantMessages()
				replace(f)
				if got := nameOf(t, p); got != "first" {
					t.Errorf("before the check: got %q, want first", got)
				}
				poll(p, 2)
				if got := nameOf(t, p); got != "second" {
					t.Errorf("after the check: got %q, want second", got)
				}
				f.wantMessages(loaded)
			})
		})
	}
}

// A new pair that is not usable has one line in the log, and the previous pair stays. A usable one then replaces it.
func TestBadSuccessor(t *testing.T) {
	t.Parallel()
	otherKey := func(f *fixture) {
		_, key, err := f.authority.Issue(certstest.Leaf{})
		if err != nil {
			f.t.Fatal(err)
		}
		f.put(f.key, string(key))
	}
	for name, spoil := range map[string]func(f *fixture){
		"key of another certificate": otherKey,
		"no PEM":                     func(f *fixture) { f.put(f.cert, "x") },
		"empty key":                  func(f *fixture) { f.put(f.key, "\n") },
		"no file":                    func(f *fixture) { _ = os.Remove(f.cert) },
		"no access":                  func(f *fixture) { _ = os.Remove(f.key); _ = os.Mkdir(f.key, 0o700) },
		"FIFO":                       func(f *fixture) { _ = os.Remove(f.cert); _ = syscall.Mkfifo(f.cert, 0o600) },
		"expired":                    func(f *fixture) { f.write(certstest.Leaf{NotAfter: time.Now().Add(-time.Minute)}) },
		"not valid yet":              func(f *fixture) { f.write(certstest.Leaf{NotBefore: time.Now().Add(time.Hour)}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.write(certstest.Leaf{Name: "first"})
				p := f.mustOpen()
				f.wantMessages(loaded)
				spoil(f)
				poll(p, 1)
				f.wantMessages() // the other file may follow
				poll(p, 5)
				f.wantMessages(refused)
				if got := nameOf(t, p); got != "first" {
					t.Errorf("got %q, want first", got)
				}
				_ = os.RemoveAll(f.key)
				f.write(certstest.Leaf{Name: "third"})
				poll(p, 2)
				f.wantMessages(loaded)
				if got := nameOf(t, p); got != "third" {
					t.Errorf("got %q, want third", got)
				}
				const want = `# HELP plantstore_tls_certificate_reloads_total ` +
					"Changes of the files of the TLS certificate, by result: loaded or refused." + `
# TYPE plantstore_tls_certificate_reloads_total counter
plantstore_tls_certificate_reloads_total{result="loaded"} 1
plantstore_tls_certificate_reloads_total{result="refused"} 1
`
				if err := testutil.GatherAndCompare(
					f.metrics, strings.NewReader(want), "plantstore_tls_certificate_reloads_total",
				); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A certificate that is not valid yet replaces the previous one when it becomes valid.
func TestSuccessorBecomesValid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.write(certstest.Leaf{Name: "first"})
		p := f.mustOpen()
		f.write(certstest.Leaf{Name: "second", NotBefore: time.Now().Add(time.Minute)})
		poll(p, 3)
		f.wantMessages(loaded, refused)
		poll(p, 12)
		f.wantMessages(loaded)
		if got := nameOf(t, p); got != "second" {
			t.Errorf("got %q, want second", got)
		}
	})
}

// TestRollback tests that the previous pair takes effect again when its files return soon after a reload of others.
func TestRollback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.write(certstest.Leaf{Name: "first"})
		p := f.mustOpen()
		poll(p, 2)
		cert, errCert := os.ReadFile(f.cert)
		key, errKey := os.ReadFile(f.key)
		f.write(certstest.Leaf{Name: "second"})
		if err := errors.Join(errCert, errKey, p.Reload()); err != nil {
			t.Fatal(err)
		}
		f.put(f.cert, string(cert))
		f.put(f.key, string(key))
		poll(p, 2)
		if got := nameOf(t, p); got != "first" {
			t.Errorf("got %q, want first", got)
		}
		f.wantMessages(loaded, loaded, loaded)
	})
}

func TestBadPairAtTheStart(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *fixture){
		"no file": func(f *fixture) { _ = os.Remove(f.key) },
		"no PEM":  func(f *fixture) { f.put(f.cert, "x") },
		"swapped": func(f *fixture) { f.cert, f.key = f.key, f.cert },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.write(certstest.Leaf{})
			spoil(f)
			_, err := f.open()
			if err == nil {
				t.Fatal("got no error")
			}
			if text := err.Error(); !strings.Contains(text, filepath.Dir(f.cert)) || strings.Contains(text, "BEGIN") {
				t.Errorf("got %q, want an error with the path and no content", text)
			}
			if name == "no file" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want fs.ErrNotExist", err)
			}
		})
	}
}

// TestChains shows the messages about a chain that clients or the program can't use, and that a certificate of a
// private authority needs no chain.
func TestChains(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	middle, err := f.authority.Intermediate()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *certstest.Authority, l certstest.Leaf) (cert, key string) {
		c, k, err := a.Issue(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(c), string(k)
	}
	leaf, key := issue(middle, certstest.Leaf{Name: "leaf"})
	private, privateKey := issue(f.authority, certstest.Leaf{Name: "private"})
	public, publicKey := issue(middle, certstest.Leaf{Name: "public", Logged: true})
	intermediate, root := string(middle.PEM), string(f.authority.PEM)
	const encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
	const traditional = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n" +
		"-----END EC PRIVATE KEY-----\n"
	files := f.cert + " and " + f.key + ": "
	other := files + "tls: private key does not match public key"
	const second = "the certificate of the key is number 2 in the file; write it first, then the certificate of its issuer"
	locked := "the key is encrypted, and the program does not ask for its password; " +
		"decrypt it with openssl pkey -in " + f.key + " -out FILE"
	const lacks = "WARN the certificate of the issuer does not follow the TLS certificate, and clients may refuse it: " +
		"insert it in the file"
	for name, in := range map[string]struct {
		cert, key string
		fault     string
		warning   string
	}{
		"leaf and intermediate":      {leaf + intermediate, key, "", ""},
		"with the root":              {leaf + intermediate + root, key, "", ""},
		"private authority":          {private, privateKey, "", ""},
		"private, with the root":     {private + root, privateKey, "", ""},
		"public":                     {public + intermediate, publicKey, "", ""},
		"public, no intermediate":    {public, publicKey, "", lacks},
		"public, only the root":      {public + root, publicKey, "", lacks},
		"root before intermediate":   {leaf + root + intermediate, key, "", lacks},
		"intermediate before leaf":   {intermediate + leaf, key, files + second, ""},
		"root first":                 {root + private, privateKey, files + second, ""},
		"key of another certificate": {leaf + intermediate, privateKey, other, ""},
		"encrypted":                  {leaf + intermediate, encrypted, files + locked, ""},
		"encrypted, traditional":     {leaf + intermediate, traditional, files + locked, ""},
	} {
		f.metrics = prometheus.NewRegistry()
		f.put(f.cert, in.cert)
		f.put(f.key, in.key)
		_, err := f.open()
		if got := fmt.Sprint(err); (in.fault != "" || err != nil) && got != in.fault {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, in.fault)
		}
		var want []string
		if in.fault == "" {
			want = append(want, loaded)
		}
		if in.warning != "" {
			want = append(want, in.warning)
		}
		if got := f.messages(); !slices.Equal(got, want) {
			t.Errorf("%s: log %q, want %q", name, got, want)
		}
	}
}

// Warnings begin 14 days before the expiry, or a fifth of a short validity, and come once a day.
func TestExpiry(t *testing.T) {
	t.Parallel()
	const soon, over = "WARN the TLS certificate expires soon: replace the files",
		"ERROR the TLS certificate has expired; clients refuse it: replace the files"
	const day = 24 * time.Hour
	for name, in := range map[string]struct {
		valid, left time.Duration // the certificate's, at the start
		wait        time.Duration
		want        map[string]int
	}{
		"before 14 days": {90 * day, 14*day + time.Hour, time.Hour - time.Minute, map[string]int{loaded: 1}},
		"14 days":        {90 * day, 14*day + time.Hour, time.Hour + time.Minute, map[string]int{loaded: 1, soon: 1}},
		"a fifth":        {5 * day, day + time.Hour, time.Hour + time.Minute, map[string]int{loaded: 1, soon: 1}},
		"a day later":    {5 * day, day, day, map[string]int{loaded: 1, soon: 2}},
		"expired":        {5 * day, time.Hour, time.Hour + time.Minute, map[string]int{loaded: 1, soon: 1, over: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.write(certstest.Leaf{NotBefore: time.Now().Add(in.left - in.valid), NotAfter: time.Now().Add(in.left)})
				poll(f.mustOpen(), int(in.wait/certs.CheckEvery))
				got := map[string]int{}
				for _, line := range f.messages() {
					got[line]++
				}
				if !maps.Equal(got, in.want) {
					t.Errorf("log: got %v, want %v", got, in.want)
				}
			})
		})
	}
}

// A server starts with an expired certificate.
func TestExpiredAtTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	expiry := time.Now().Add(-time.Minute).Truncate(time.Second)
	f.write(certstest.Leaf{NotBefore: expiry.Add(-time.Hour), NotAfter: expiry})
	f.mustOpen()
	f.wantMessages(loaded, "ERROR the TLS certificate has expired; clients refuse it: replace the files")
	const end, begin = "plantstore_tls_certificate_expiry_timestamp_seconds",
		"plantstore_tls_certificate_not_before_timestamp_seconds"
	want := fmt.Sprintf("# HELP %s Time at which the TLS certificate in use expires.\n# TYPE %[1]s gauge\n%[1]s %v\n"+
		"# HELP %s Time from which on the TLS certificate in use is valid.\n# TYPE %[3]s gauge\n%[3]s %v\n",
		end, float64(expiry.Unix()), begin, float64(expiry.Add(-time.Hour).Unix()))
	if err := testutil.GatherAndCompare(f.metrics, strings.NewReader(want), end, begin); err != nil {
		t.Error(err)
	}
}

// A certificate is valid for the names that clients accept it for, and a new one for its own.
func TestIsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.write(certstest.Leaf{Name: "common.example", DNSNames: []string{"plants.example", "*.office.example"}})
		p := f.mustOpen()
		want := func(valid bool, hosts ...string) {
			t.Helper()
			for _, host := range hosts {
				if got := p.IsFor(host); got != valid {
					t.Errorf("%s: got %t, want %t", host, got, valid)
				}
			}
		}
		want(true, "plants.example", "localhost", "127.0.0.1", "a.office.example")
		want(false, "evil.example", "x.plants.example", "office.example", "a.b.office.example",
			"common.example", "127.0.0.2", "::1", "", "new.example")
		f.write(certstest.Leaf{DNSNames: []string{"new.example"}})
		poll(p, 2)
		want(true, "new.example")
		want(false, "plants.example", "a.office.example")
	})
}

func TestModeOfTheKey(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode][]string{
		0o600: {loaded}, 0o640: {loaded},
		0o644: {loaded, "WARN other users have access to the private key: run chmod o= on the file"},
	} {
		f := newFixture(t)
		f.write(certstest.Leaf{})
		if err := os.Chmod(f.key, mode); err != nil {
			t.Fatal(err)
		}
		f.mustOpen()
		if got := f.messages(); !slices.Equal(got, want) {
			t.Errorf("mode %s: log: got %q, want %q", mode, got, want)
		}
	}
}

func TestAuthorities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		file := filepath.Join(t.TempDir(), "ca.pem")
		if _, err := certs.OpenAuthorities(file, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no file: got %v, want fs.ErrNotExist", err)
		}
		f.put(file, "x")
		if _, err := certs.OpenAuthorities(file, nil); err == nil {
			t.Error("no PEM: got no error")
		}
		f.put(file, string(f.authority.PEM))
		a, err := certs.OpenAuthorities(file, slog.New(slog.NewJSONHandler(&f.log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if !a.Pool().Equal(f.authority.Pool()) {
			t.Error("the pool differs from the file")
		}
		f.put(file, "x")
		poll(a, 4)
		f.wantMessages("ERROR could not load the new authorities of client certificates; the previous ones stay in use")
		if !a.Pool().Equal(f.authority.Pool()) {
			t.Error("the pool changed")
		}
		other, err := certstest.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		f.put(file, string(other.PEM))
		poll(a, 2)
		f.wantMessages("INFO authorities of client certificates loaded")
		if !a.Pool().Equal(other.Pool()) {
			t.Error("the pool differs from the new file")
		}
	})
}

// A program writes a part of a file before a check, and the rest after it. The part is never in use.
func TestHalfWrittenAuthorities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other, err := certstest.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "ca.pem")
		f.put(file, string(f.authority.PEM))
		a, err := certs.OpenAuthorities(file, slog.New(slog.NewJSONHandler(&f.log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		f.put(file, string(other.PEM))
		poll(a, 1)
		f.wantMessages()
		f.put(file, string(other.PEM)+string(f.authority.PEM))
		poll(a, 2)
		f.wantMessages("INFO authorities of client certificates loaded")
		both := f.authority.Pool()
		both.AppendCertsFromPEM(other.PEM)
		if !a.Pool().Equal(both) {
			t.Error("the pool differs from the whole file")
		}
	})
}
