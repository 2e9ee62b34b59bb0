package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// contender is a program that the benchmark compares.
type contender struct {
	name, title  string
	path, member string // for the create operation; name of the body's id member
	file         string // SQLite file with the table of plants; "" if it has none
	tls          bool   // it serves HTTPS
	webhook      bool   // it sends events to a receiver
	bare         bool   // it checks no token and stores nothing
	program      string // a version of Plant Store
	start        func(ctx context.Context, b *bench, s *server) error
}

const (
	floorName      = "floor"
	floorTLSName   = "floor-tls"
	productName    = "plantstore"
	productTLSName = "plantstore-tls"
	hookName       = "plantstore-webhook"
	lastName       = "last"
	productPGName  = "plantstorepg"
	hookPGName     = "plantstorepg-webhook"
	citusName      = "plantstorecitus"
	plainName      = "plain"
	pocketbaseName = "pocketbase"
	plainpgName    = "plainpg"
	contenderToken = "made-for-measuring"
)

// contenders has all contenders in the order of the page.
var contenders = []contender{
	{name: floorName, title: "floor", bare: true, start: startFloor},
	{name: floorTLSName, title: "floor over TLS", tls: true, bare: true, start: startFloor},
	{name: productName, title: "Plant Store on SQLite", file: "plants.db", program: productName, start: startProduct},
	{
		name: productTLSName, title: "Plant Store on SQLite over TLS", file: "plants.db", tls: true, program: productName,
		start: startProduct,
	},
	{
		name: hookName, title: "Plant Store on SQLite with a webhook", file: "plants.db", webhook: true,
		program: productName, start: startProduct,
	},
	{name: lastName, title: "last release", file: "plants.db", program: lastName, start: startProduct},
	{name: productPGName, title: "Plant Store on PostgreSQL", program: productName, start: startProductPG},
	{
		name: hookPGName, title: "Plant Store on PostgreSQL with a webhook", webhook: true, program: productName,
		start: startProductPG,
	},
	{name: citusName, title: "Plant Store on Citus", program: productName, start: startProductCitus},
	{name: plainName, title: "plain SQLite", file: "plants.db", start: startPlain},
	{
		name: pocketbaseName, title: "PocketBase", path: "/api/collections/plants/records", member: "pid",
		file: "pb_data/data.db", start: startPocketBase,
	},
	{name: plainpgName, title: "plain PostgreSQL", start: startPlainPG},
}

func contenderNamed(name string) *contender {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &contenders[i]
}

// compares reports whether the run compares a contender.
func (b *bench) compares(name string) bool {
	switch {
	case name == lastName && b.last == "", name == citusName && os.Getenv(citusVariable) == "":
		return false
	}
	return b.only == nil || slices.Contains(b.only, name)
}

// usesPostgres reports whether the run needs PostgreSQL.
func (b *bench) usesPostgres() bool {
	return slices.ContainsFunc([]string{plainpgName, productPGName, hookPGName}, b.compares)
}

// server is a running contender.
type server struct {
	*process
	contender
	dir      string // has its files
	cpus     string // for taskset; "": all processors
	address  string
	client   *http.Client // trusts the certificate of a server with TLS
	token    string
	database *database   // nil if the contender uses none
	citus    *citusStore // nil if the contender uses none
	receiver *receiver   // nil if the contender sends no events
}

// url returns the URL of the server.
func (s *server) url() string {
	if s.tls {
		return "https://" + s.address
	}
	return "http://" + s.address
}

// launch starts a contender and probes it. The caller calls shutdown if the error is nil.
func (b *bench) launch(ctx context.Context, s *server) (err error) {
	s.client = b.certificate.client
	s.path, s.member = cmp.Or(s.path, "/plants"), cmp.Or(s.member, "id")
	if s.address, err = freeAddress(ctx); err != nil {
		return err
	}
	if err := s.start(ctx, b, s); err != nil {
		return errors.Join(err, s.shutdown())
	}
	if err := waitFor(ctx, s.name, s.exited, func() bool { return accepts(s.address) }); err != nil {
		return errors.Join(err, s.shutdown(), errors.New(s.stderr.String()))
	}
	if err := s.probe(ctx); err != nil {
		return errors.Join(err, s.shutdown())
	}
	return nil
}

// shutdown stops the server, then its database and its receiver.
func (s *server) shutdown() error {
	var errs []error
	if s.process != nil {
		errs = append(errs, s.process.stop(syscall.SIGTERM))
	}
	if s.database != nil {
		errs = append(errs, s.database.stop())
	}
	if s.citus != nil {
		errs = append(errs, s.citus.remove(context.Background())) // also after an interruption
	}
	if s.receiver != nil {
		errs = append(errs, s.receiver.Close())
	}
	return errors.Join(errs...)
}

// freeAddress returns a loopback address with a free port. Another program may bind the port before the caller does.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func accepts(address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

func startFloor(ctx context.Context, b *bench, s *server) (err error) {
	s.token = contenderToken
	args := []string{b.program(floorName), "-listen", s.address}
	if s.tls {
		args = append(args, b.certificate.flags("-")...)
	}
	s.process, err = start(ctx, s.cpus, nil, args...)
	return err
}

func startPlain(ctx context.Context, b *bench, s *server) (err error) {
	s.token = contenderToken
	s.process, err = start(ctx, s.cpus, nil, b.program(plainName), "-listen", s.address, "-token", s.token, "-db",
		filepath.Join(s.dir, s.file))
	return err
}

func startPlainPG(ctx context.Context, b *bench, s *server) (err error) {
	s.token = contenderToken
	if s.database, err = b.cluster.start(ctx, s.cpus, filepath.Join(s.dir, "postgres")); err != nil {
		return err
	}
	s.process, err = start(ctx, s.cpus, nil, b.program(plainpgName), "-listen", s.address, "-token", s.token, "-db",
		s.database.url())
	return err
}

// startPocketBase reads the token from the program's output. PocketBase derives its development mode, which prints
// every statement, from the path of the program; --dev=false turns it off.
func startPocketBase(ctx context.Context, b *bench, s *server) (err error) {
	s.process, err = start(ctx, s.cpus, nil, b.program(pocketbaseName), "serve", "--dev=false", "--http="+s.address,
		"--dir="+filepath.Join(s.dir, "pb_data"))
	if err != nil {
		return err
	}
	if err := waitFor(ctx, s.name, s.exited,
		func() bool { return strings.Contains(s.stdout.String(), "\n") }); err != nil {
		return errors.Join(err, errors.New(s.stderr.String()))
	}
	s.token, _, _ = strings.Cut(s.stdout.String(), "\n")
	return nil
}

// createToken creates a token in a store with the command of a version of the product, and returns the secret.
func (b *bench) createToken(ctx context.Context, program, db string) (string, error) {
	command := exec.CommandContext(ctx, b.program(program), "token", "create", "measuring", "--no-expiry", "--create",
		"--db", db)
	command.Env = cleanEnviron()
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("token create: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func startProduct(ctx context.Context, b *bench, s *server) error {
	return b.serve(ctx, s, filepath.Join(s.dir, s.file))
}

func startProductPG(ctx context.Context, b *bench, s *server) (err error) {
	if s.database, err = b.cluster.start(ctx, s.cpus, filepath.Join(s.dir, "postgres")); err != nil {
		return err
	}
	return b.serve(ctx, s, s.database.storeURL())
}

// serve starts the product on the store at db.
func (b *bench) serve(ctx context.Context, s *server, db string) (err error) {
	if s.token == "" {
		if s.token, err = b.createToken(ctx, s.program, db); err != nil {
			return err
		}
	}
	args := []string{
		b.program(s.program), "serve", "--db", db, "--listen", s.address, "--admin-listen", "127.0.0.1:0",
	}
	if s.tls {
		args = append(args, b.certificate.flags("--")...)
	}
	if s.webhook {
		if s.receiver, err = newReceiver(ctx); err != nil {
			return err
		}
		secret := filepath.Join(s.dir, "webhook.secret")
		if err := os.WriteFile(secret, []byte(webhookSecret), 0o600); err != nil {
			return err
		}
		args = append(args, "--webhook-url", s.receiver.url, "--webhook-secret-file", secret, "--webhook-allow-private")
	}
	s.process, err = start(ctx, s.cpus, nil, args...)
	return err
}

// webhookSecret signs the deliveries of the benchmark.
const webhookSecret = "whsec_bWFkZS1mb3ItbWVhc3VyaW5nLW1hZGUtZm9yLW1lYXN1cmluZw==" //nolint:gosec // it protects nothing

// receiver receives the events of a server in this process.
type receiver struct {
	http.Server

	url    string
	events atomic.Int64
}

func newReceiver(ctx context.Context) (*receiver, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/events"}
	r.Handler = http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		if _, err := io.Copy(io.Discard, request.Body); err == nil {
			r.events.Add(1)
		}
	})
	go r.Serve(l) //nolint:errcheck // ends with Close
	return r, nil
}

// probeID is outside every stream of ids.
const probeID = firstID - 1

// probe checks that a contender acknowledges a plant with its name and tag and refuses a wrong token.
func (s *server) probe(ctx context.Context) error {
	if !s.bare {
		status, _, err := s.post(ctx, "wrong", probeID)
		if err != nil {
			return err
		}
		if status < 400 || status > 499 {
			return fmt.Errorf("%s: status of a wrong token is %d, want 4xx", s.name, status)
		}
	}
	status, body, err := s.post(ctx, s.token, probeID)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !bytes.Contains(body, []byte(`"name":"Made for measuring"`)) || !bytes.Contains(body,
		[]byte(`"tag":"made"`)) {
		return fmt.Errorf("%s: response to a plant is %d %s", s.name, status, body)
	}
	return nil
}

func (s *server) post(ctx context.Context, token string, id int64) (status int, body []byte, err error) {
	text := fmt.Sprintf(`{%q:%d,"name":"Made for measuring","tag":"made"}`, s.member, id)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url()+s.path, strings.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	response, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
