package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// contender is one of those that are compared.
type contender struct {
	name, title string
	path        string // where plants are posted
	member      string // of the body that holds the id
	file        string // the SQLite file with its table of plants; "" if there is none
	checksToken bool
	start       func(ctx context.Context, b *bench, s *server) error
}

const (
	floorName      = "floor"
	productName    = "plantstore"
	plainName      = "plain"
	pocketbaseName = "pocketbase"
	plainpgName    = "plainpg"
	productPGName  = "plantstorepg"
	contenderToken = "made-for-measuring"
)

// contenders are all of them, in the order of the page.
var contenders = []contender{
	{name: floorName, title: "floor: net/http, a constant answer", path: "/plants", member: "id", start: startFloor},
	{name: productName, title: "Plant Store on SQLite", path: "/plants", member: "id", file: "plants.db", checksToken: true, start: startProduct},
	{name: productPGName, title: "Plant Store on PostgreSQL", path: "/plants", member: "id", checksToken: true, start: startProductPG},
	{name: plainName, title: "plain: one INSERT a request, SQLite", path: "/plants", member: "id", file: "plants.db", checksToken: true, start: startPlain},
	{name: pocketbaseName, title: "PocketBase", path: "/api/collections/plants/records", member: "pid", file: "pb_data/data.db", checksToken: true, start: startPocketBase},
	{name: plainpgName, title: "plain: one INSERT a request, PostgreSQL", path: "/plants", member: "id", checksToken: true, start: startPlainPG},
}

func contenderNamed(name string) *contender {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &contenders[i]
}

// wants reports whether a contender takes part.
func (b *bench) wants(name string) bool {
	return slices.Contains(b.phases, "compare") && (b.only == nil || slices.Contains(b.only, name))
}

// server is one contender that runs.
type server struct {
	*process
	contender
	cpus     string // it may run on; "": on all
	dir      string // of its own
	address  string
	admin    string // the address of Plant Store's admin door
	token    string
	walBound string    // of Plant Store, in its own words
	database *database // nil if it needs none
}

// launch starts a contender in a directory of its own, and has it answer one
// plant as it should.
func (b *bench) launch(ctx context.Context, s *server) (err error) {
	if s.address, err = freeAddress(ctx); err != nil {
		return err
	}
	if err := s.start(ctx, b, s); err != nil {
		return errors.Join(err, s.shutdown())
	}
	if err := waitFor(ctx, s.name, s.ended, func() bool { return accepts(s.address) }); err != nil {
		return errors.Join(err, s.shutdown(), errors.New(s.faults.String()))
	}
	if err := s.probe(ctx); err != nil {
		return errors.Join(err, s.shutdown())
	}
	return nil
}

// shutdown stops what runs of the server, the database last.
func (s *server) shutdown() error {
	var errs []error
	if s.process != nil {
		err := s.process.stop(syscall.SIGTERM)
		errs = append(errs, err)
	}
	if s.database != nil {
		errs = append(errs, s.database.stop())
	}
	return errors.Join(errs...)
}

// freeAddress returns an address of this machine that nobody listened on a
// moment ago.
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
	s.process, err = start(ctx, s.cpus, nil, b.program(floorName), "-listen", s.address)
	return err
}

func startPlain(ctx context.Context, b *bench, s *server) (err error) {
	s.token = contenderToken
	s.process, err = start(ctx, s.cpus, nil, b.program(plainName), "-listen", s.address, "-token", s.token, "-db", filepath.Join(s.dir, s.file))
	return err
}

func startPlainPG(ctx context.Context, b *bench, s *server) (err error) {
	s.token = contenderToken
	if s.database, err = b.cluster.start(ctx, s.cpus, filepath.Join(s.dir, "postgres")); err != nil {
		return err
	}
	s.process, err = start(ctx, s.cpus, nil, b.program(plainpgName), "-listen", s.address, "-token", s.token, "-db", s.database.url())
	return err
}

// startPocketBase takes the token that the program prints. PocketBase goes by
// where its program lies whether it is being developed, which makes it print
// every statement; here it is not.
func startPocketBase(ctx context.Context, b *bench, s *server) (err error) {
	s.process, err = start(ctx, s.cpus, nil, b.program(pocketbaseName), "serve", "--dev=false", "--http="+s.address, "--dir="+filepath.Join(s.dir, "pb_data"))
	if err != nil {
		return err
	}
	if err := waitFor(ctx, s.name, s.ended, func() bool { return strings.Contains(s.out.String(), "\n") }); err != nil {
		return errors.Join(err, errors.New(s.faults.String()))
	}
	s.token, _, _ = strings.Cut(s.out.String(), "\n")
	return nil
}

// createToken makes a token in a store of the product, as an operator does.
func (b *bench) createToken(ctx context.Context, db string) (string, error) {
	command := exec.CommandContext(ctx, b.program(productName), "token", "create", "measuring", "--no-expiry", "--create", "--db", db)
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
	return b.serve(ctx, s, "postgres://postgres@/postgres?host="+url.QueryEscape(s.database.dir))
}

// serve starts the product on a store that --db names.
func (b *bench) serve(ctx context.Context, s *server, db string) (err error) {
	if s.token, err = b.createToken(ctx, db); err != nil {
		return err
	}
	if s.admin, err = freeAddress(ctx); err != nil {
		return err
	}
	args := []string{b.program(productName), "serve", "--db", db, "--listen", s.address, "--admin-listen", s.admin}
	if s.walBound != "" {
		args = append(args, "--wal-max", s.walBound)
	}
	s.process, err = start(ctx, s.cpus, nil, args...)
	return err
}

// probeID is an id that no stream of the generator has.
const probeID = firstID - 1

// probe holds every contender to the same: one plant is answered with 200 and
// its name and tag, and a wrong token with nothing good.
func (s *server) probe(ctx context.Context) error {
	if s.checksToken {
		status, _, err := s.post(ctx, "wrong", probeID)
		if err != nil {
			return err
		}
		if status < 400 || status > 499 {
			return fmt.Errorf("%s answers a wrong token with %d", s.name, status)
		}
	}
	status, body, err := s.post(ctx, s.token, probeID)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !bytes.Contains(body, []byte(`"name":"Made for measuring"`)) || !bytes.Contains(body, []byte(`"tag":"made"`)) {
		return fmt.Errorf("%s answers a plant with %d %s", s.name, status, body)
	}
	return nil
}

func (s *server) post(ctx context.Context, token string, id int64) (status int, body []byte, err error) {
	text := fmt.Sprintf(`{%q:%d,"name":"Made for measuring","tag":"made"}`, s.member, id)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+s.path, strings.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// countFile counts the plants of an SQLite file that nobody has open.
func countFile(ctx context.Context, path string) (int64, error) {
	out, err := exec.CommandContext(ctx, "sqlite3", path, "SELECT count(*) FROM plants").Output()
	if err != nil {
		return 0, fmt.Errorf("count the rows of %s: %w", filepath.Base(path), err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}
