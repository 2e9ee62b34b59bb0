package certs_test

import (
	"crypto/tls"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/certs"
	"plantstore/internal/certs/certstest"
)

// A reload in the middle of the write of a chain does not use the part. The whole chain is in use 2 s after its write.
func TestReloadOfHalfWrittenChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.write(certstest.Leaf{Name: "first"})
		p := f.mustOpen()
		f.wantMessages(loaded)
		cert, key, err := f.authority.Issue(certstest.Leaf{Name: "second"})
		if err != nil {
			t.Fatal(err)
		}
		want := func(when, name string, chain int) {
			t.Helper()
			c, err := p.GetCertificate(&tls.ClientHelloInfo{})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Leaf.Subject.CommonName; got != name || len(c.Certificate) != chain {
				t.Errorf("%s: got %s with %d certificates, want %s with %d", when, got, len(c.Certificate), name, chain)
			}
		}
		reload := func() {
			t.Helper()
			if err := p.Reload(f.cert, f.key); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		f.put(f.key, string(key))
		f.put(f.cert, string(cert))
		reload()
		<-time.After(time.Second)
		want("the leaf", "first", 1)
		f.put(f.cert, string(cert)+string(f.authority.PEM))
		reload()
		<-time.After(1500 * time.Millisecond)
		reload() // of the same contents
		want("the chain", "first", 1)
		<-time.After(600 * time.Millisecond)
		reload()
		want("2 s after its write", "second", 2)
		f.wantMessages(loaded)
	})
}

// A reload uses the contents of other files at once.
func TestReloadOfOtherFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write(certstest.Leaf{Name: "first"})
	p := f.mustOpen()
	f.cert, f.key = f.cert+"-2", f.key+"-2"
	f.write(certstest.Leaf{Name: "second"})
	if err := p.Reload(f.cert, f.key); err != nil {
		t.Fatal(err)
	}
	if got := nameOf(t, p); got != "second" {
		t.Errorf("got %q, want second", got)
	}
}

// A reload uses authorities in the same file 2 s after their write, without a further reload.
func TestReloadOfAuthorities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other, err := certstest.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "ca.pem")
		f.put(file, string(f.authority.PEM))
		a, err := certs.OpenAuthorities(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		f.put(file, string(other.PEM))
		if err := a.Reload(file); err != nil {
			t.Fatal(err)
		}
		if !a.Pool().Equal(f.authority.Pool()) {
			t.Error("the new contents are in use at once")
		}
		<-time.After(2*time.Second + time.Millisecond)
		synctest.Wait()
		if !a.Pool().Equal(other.Pool()) {
			t.Error("the new contents are not in use after 2 s")
		}
	})
}
