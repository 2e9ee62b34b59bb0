package acme_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/internal/acme"
	"plantstore/internal/acme/pebbletest"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
)

func newDatabase(t *testing.T) (url string) {
	t.Helper()
	server, err := pgtest.Start(t.Context())
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	url, err = server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func openDatabase(t *testing.T, url string) postgres.ACME {
	t.Helper()
	engine, err := postgres.Open(t.Context(), postgres.Config{URL: url, Server: true, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine.ACME()
}

// relay forwards connections to one replica after the other, as a load balancer does.
func relay(t *testing.T, l net.Listener, replicas ...string) {
	t.Helper()
	var next atomic.Int64
	var dialer net.Dialer
	go func() { // ends when the listener is closed
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := dialer.DialContext(t.Context(), "tcp", replicas[int(next.Add(1))%len(replicas)])
			if err != nil {
				_ = client.Close()
				continue
			}
			go forward(client, server)
			go forward(server, client)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
}

// forward copies from one connection to another and closes both at the end.
func forward(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

// Two replicas that start together on one database order one certificate, renew it together once, and answer each
// other's challenges: the load balancer sends validations to both.
func TestReplicasOrderOnce(t *testing.T) {
	t.Parallel()
	long(t)
	url := newDatabase(t)
	front, l1, l2 := listen(t), listen(t), listen(t)
	ca := newCA(t, pebbletest.Config{TLSPort: port(front), NonceReject: 20})
	relay(t, front, l1.Addr().String(), l2.Addr().String())
	var replicas []*replica
	for _, l := range []net.Listener{l1, l2} {
		c := configFor(ca, nil, localhost)
		c.Storage = openDatabase(t, url)
		replicas = append(replicas, newSource(t, c, l))
	}
	roots := issuerRoots(t, ca)
	first, second := replicas[0].awaitCertificate(t, roots), replicas[1].awaitCertificate(t, roots)
	if first.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Errorf("serials %x and %x, want one certificate", first.SerialNumber, second.SerialNumber)
	}
	if got := ca.Orders() - failedOrders(replicas); got != 1 {
		t.Errorf("%d orders, want 1", got)
	}
}

// failedOrders returns the number of orders that failed: on a busy machine the database may not answer in time.
func failedOrders(replicas []*replica) (n int) {
	for _, r := range replicas {
		_, failed := r.Orders()
		n += int(failed)
	}
	return n
}

// The renewals of two replicas lead to one order each time.
func TestReplicasRenewOnce(t *testing.T) {
	t.Parallel()
	long(t)
	url := newDatabase(t)
	front, l1, l2 := listen(t), listen(t), listen(t)
	const lifetime = 15 * time.Second
	ca := newCA(t, pebbletest.Config{TLSPort: port(front), Lifetime: lifetime})
	relay(t, front, l1.Addr().String(), l2.Addr().String())
	var replicas []*replica
	for _, l := range []net.Listener{l1, l2} {
		c := configFor(ca, nil, localhost)
		c.Storage = openDatabase(t, url)
		replicas = append(replicas, newSource(t, c, l))
	}
	roots := issuerRoots(t, ca)
	before, began := replicas[0].awaitCertificate(t, roots), time.Now()
	for _, r := range replicas {
		await(t, func() error {
			if leaf, err := leaf(t, r.address, roots); err != nil || leaf.SerialNumber.Cmp(before.SerialNumber) == 0 {
				return errors.Join(errors.New("the certificate is not renewed"), err)
			}
			return nil
		})
	}
	most := max(2, 1+int(time.Since(began)/(lifetime/2))) // a slow machine sees the next renewals
	if got := ca.Orders() - failedOrders(replicas); got < 2 || got > most {
		t.Errorf("%d orders, want 2 to %d", got, most)
	}
	log := replicas[0].log.String() + replicas[1].log.String()
	if got := strings.Count(log, "ACME account registered"); got != 1 {
		t.Errorf("%d accounts registered, want 1", got)
	}
}

func TestDatabaseStorage(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	first, second := openDatabase(t, url), openDatabase(t, url)
	ctx := t.Context()
	if value, err := first.Load(ctx, "account.json"); value != nil || err != nil {
		t.Errorf("a missing value: %q, %v, want nothing", value, err)
	}
	for _, value := range [][]byte{{0, 1, 255}, []byte("second"), bytes.Repeat([]byte("x"), 1<<20)} {
		if err := first.Save(ctx, "account.json", value); err != nil {
			t.Fatal(err)
		}
		if got, err := second.Load(ctx, "account.json"); err != nil || !bytes.Equal(got, value) {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(value))
		}
	}
	unlock, locked, err := first.TryLock(ctx)
	if err != nil || !locked {
		t.Fatalf("the first lock: %t, %v", locked, err)
	}
	if _, locked, err := second.TryLock(ctx); err != nil || locked {
		t.Errorf("a second lock: %t, %v, want false", locked, err)
	}
	unlock()
	if unlock, locked, err = second.TryLock(ctx); err != nil || !locked {
		t.Fatalf("after the unlock: %t, %v", locked, err)
	}
	unlock()
	for range 2 {
		if err := second.Delete(ctx, "account.json"); err != nil {
			t.Error(err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := first.Load(cancelled, "account.json"); err == nil || strings.Contains(err.Error(), "no rows") {
		t.Errorf("a cancelled read: %v", err)
	}
}

// brokenStorage fails to store certificates.
type brokenStorage struct {
	acme.Storage
	repaired atomic.Bool
	failed   atomic.Int64
}

func (s *brokenStorage) Save(ctx context.Context, key string, value []byte) error {
	if strings.HasPrefix(key, "certificate-") && !s.repaired.Load() {
		s.failed.Add(1)
		return errors.New("no space left on device")
	}
	return s.Storage.Save(ctx, key, value)
}

// A certificate that the storage does not accept is in use and is stored later, without another order.
func TestStorageThatIsFull(t *testing.T) {
	t.Parallel()
	long(t)
	l := listen(t)
	ca := newCA(t, pebbletest.Config{TLSPort: port(l)})
	storage := &brokenStorage{Storage: newStorage(t)}
	r := newSource(t, configFor(ca, storage, localhost), l)
	r.awaitCertificate(t, issuerRoots(t, ca))
	await(t, func() error {
		if storage.failed.Load() < 3 {
			return errors.New("the Source does not try again")
		}
		return nil
	})
	storage.repaired.Store(true)
	await(t, func() error {
		return awaited(storage.Load(t.Context(), "certificate-localhost.pem"))
	})
	if got := ca.Orders(); got != 1 {
		t.Errorf("%d orders, want 1", got)
	}
}

// A certificate of another directory is replaced at once: a test CA's must not stay until its renewal.
func TestChangeOfDirectory(t *testing.T) {
	t.Parallel()
	long(t)
	storage := newStorage(t)
	for range 2 {
		l := listen(t)
		ca := newCA(t, pebbletest.Config{TLSPort: port(l)})
		r := newSource(t, configFor(ca, storage, localhost), l)
		r.awaitCertificate(t, issuerRoots(t, ca))
		r.Close()
		if got := ca.Orders(); got != 1 {
			t.Errorf("%d orders, want 1", got)
		}
	}
}
