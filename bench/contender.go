package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// contender is a program that the benchmark compares.
type contender struct {
	name, title string
	path        string // of the create operation
	member      string // name of the body's id member
	file        string // SQLite file with the table of plants; "" if it has none
	checksToken bool
	program     string // of a version of Plant Store
	start       func(ctx context.Context, b *bench, s *server) error
}

const (
	floorName      = "floor"
	productName    = "plantstore"
	plainName      = "plain"
	pocketbaseName = "pocketbase"
	plainpgName    = "plainpg"
	productPGName  = "plantstorepg"
	citusName      = "plantstorecitus"
	lastName       = "last"
	contenderToken = "made-for-measuring"
)

// contenders has all contenders in the order of the page.
var contenders = []contender{
	{name: floorName, title: "floor", path: "/plants", member: "id", start: startFloor},
	{
		name: productName, title: "Plant Store on SQLite", path: "/plants", member: "id", file: "plants.db",
		checksToken: true, program: productName, start: startProduct,
	},
	{
		name: lastName, title: "Plant Store on SQLite, earlier version", path: "/plants", member: "id", file: "plants.db",
		checksToken: true, program: lastName, start: startProduct,
	},
	{
		name: productPGName, title: "Plant Store on PostgreSQL", path: "/plants", member: "id", checksToken: true,
		program: productName, start: startProductPG,
	},
	{
		name: citusName, title: "Plant Store on Citus", path: "/plants", member: "id", checksToken: true,
		program: productName, start: startProductCitus,
	},
	{
		name: plainName, title: "plain SQLite", path: "/plants", member: "id", file: "plants.db", checksToken: true,
		start: startPlain,
	},
	{
		name: pocketbaseName, title: "PocketBase", path: "/api/collections/plants/records", member: "pid",
		file: "pb_data/data.db", checksToken: true, start: startPocketBase,
	},
	{name: plainpgName, title: "plain PostgreSQL", path: "/plants", member: "id", checksToken: true, start: startPlainPG},
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
	if name == lastName && b.last == "" {
		return false
	}
	return slices.Contains(b.phases, "compare") && (b.only == nil || slices.Contains(b.only, name))
}

// searches reports whether the run measures searches of a contender.
func (b *bench) searches(name string) bool {
	return slices.Contains(b.phases, phaseSearch) && (b.only == nil || slices.Contains(b.only, name))
}

// usesPostgres reports whether the run needs PostgreSQL.
func (b *bench) usesPostgres() bool {
	return b.compares(plainpgName) || b.compares(productPGName) || b.searches(productPGName) ||
		b.measuresWebhooks(productPGName)
}

// server is a running contender.
type server struct {
	*process
	contender
	place
	dir      string // of its files
	address  string
	tls      bool
	client   *http.Client // trusts the certificate of a server with TLS
	admin    string       // address of Plant Store's admin listener
	token    string
	store    string      // address of Plant Store's store
	walBound string      // value of Plant Store's --wal-max; "": the default
	data     string      // data directory that its database begins with; "": an empty database
	webhook  string      // URL that receives the events; "": none
	database *database   // nil if the contender uses none
	citus    *citusStore // nil if the contender uses none
}

// launch starts a contender and probes it. The caller calls shutdown if the error
// is nil.
func (b *bench) launch(ctx context.Context, s *server) (err error) {
	s.client = b.certificate.client
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

// shutdown stops the server, then its database.
func (s *server) shutdown() error {
	var errs []error
	if s.process != nil {
		err := s.process.stop(syscall.SIGTERM)
		errs = append(errs, err)
	}
	if s.database != nil {
		errs = append(errs, s.database.stop())
	}
	if s.citus != nil {
		errs = append(errs, s.citus.remove(context.Background())) // also after an interruption
	}
	return errors.Join(errs...)
}

// freeAddress returns a loopback address with a free port. Another program may
// bind the port before the caller does.
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
	args := append([]string{b.program(floorName), "-listen", s.address}, b.tlsFlags(s, "-")...)
	s.process, err = start(ctx, s.place, nil, args...)
	return err
}

func startPlain(ctx context.Context, b *bench, s *server) (err error) {
	s.token = contenderToken
	s.process, err = start(ctx, s.place, nil, b.program(plainName), "-listen", s.address, "-token", s.token, "-db",
		filepath.Join(s.dir, s.file))
	return err
}

func startPlainPG(ctx context.Context, b *bench, s *server) (err error) {
	s.token = contenderToken
	if s.database, err = b.cluster.start(ctx, s.place, filepath.Join(s.dir, "postgres"), ""); err != nil {
		return err
	}
	s.process, err = start(ctx, s.place, nil, b.program(plainpgName), "-listen", s.address, "-token", s.token, "-db",
		s.database.url())
	return err
}

// startPocketBase reads the token from the program's output. PocketBase derives
// its development mode, which prints every statement, from the path of the
// program; --dev=false turns it off.
func startPocketBase(ctx context.Context, b *bench, s *server) (err error) {
	s.process, err = start(ctx, s.place, nil, b.program(pocketbaseName), "serve", "--dev=false", "--http="+s.address,
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
		"--scope", "plants:create,metrics", "--db", db)
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
	if s.database, err = b.cluster.start(ctx, s.place, filepath.Join(s.dir, "postgres"), s.data); err != nil {
		return err
	}
	return b.serve(ctx, s, s.database.storeURL())
}

// serve starts the product on the store at db.
func (b *bench) serve(ctx context.Context, s *server, db string) (err error) {
	s.store = db
	if s.token == "" {
		if s.token, err = b.createToken(ctx, s.program, db); err != nil {
			return err
		}
	}
	if s.admin, err = freeAddress(ctx); err != nil {
		return err
	}
	args := []string{b.program(s.program), "serve", "--db", db, "--listen", s.address, "--admin-listen", s.admin}
	args = append(args, b.tlsFlags(s, "--")...)
	if s.walBound != "" {
		args = append(args, "--wal-max", s.walBound)
	}
	webhookFlags, err := s.webhookFlags()
	if err != nil {
		return err
	}
	args = append(args, webhookFlags...)
	s.process, err = start(ctx, s.place, nil, args...)
	return err
}

// probeID is outside every stream of ids.
const probeID = firstID - 1

// probe checks that a contender acknowledges a plant with its name and tag and
// refuses a wrong token.
func (s *server) probe(ctx context.Context) error {
	if s.checksToken {
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

// countFile counts the plants of a SQLite file that no process has open.
func countFile(ctx context.Context, path string) (int64, error) {
	out, err := exec.CommandContext(ctx, "sqlite3", path, "SELECT count(*) FROM plants").Output()
	if err != nil {
		return 0, fmt.Errorf("count the rows of %s: %w", filepath.Base(path), err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}
