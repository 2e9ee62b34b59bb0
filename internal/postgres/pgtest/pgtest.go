// Package pgtest runs a PostgreSQL server for tests, from the programs that the
// system has: with the settings of a fresh installation, in a directory of its
// own, and on no port.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// init removes libpq's variables from the environment of the tests, where they
// would point clients at another server
// (https://www.postgresql.org/docs/current/libpq-envars.html).
func init() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for a name that no variable can have
		}
	}
}

// ErrMissing means that the system has no PostgreSQL.
var ErrMissing = errors.New("there is no PostgreSQL: apt-get install postgresql")

// Server is a running PostgreSQL. Its socket lies in its directory.
type Server struct {
	dir     string
	command *exec.Cmd
	said    bytes.Buffer // to be read after the end
	ended   chan struct{}
	names   atomic.Int64 // the last number of nextName
}

// Start starts a server, with settings besides those of a fresh installation:
// "log_statement=all". The caller stops it.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	return startWith(ctx, nil, settings)
}

// startWith starts a server with files of its own in its directory, by name.
func startWith(ctx context.Context, files map[string][]byte, settings []string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	as, err := owner()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent(as), "pgtest")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, ended: make(chan struct{})}
	if err := s.start(ctx, bin, as, files, settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Around runs the tests of a package beside a server, which it leaves in *server;
// nil if the system has no PostgreSQL, which under CI=true is a failure, and
// else is said. It returns the exit code.
func Around(run func() int, server **Server) (code int) {
	s, err := Start(context.Background())
	if err != nil && (!errors.Is(err, ErrMissing) || os.Getenv("CI") == "true") {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*server = s
	code = run()
	if s == nil {
		fmt.Fprintln(os.Stderr, "NOTHING WAS TESTED WITH POSTGRESQL:", err)
	} else if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// programs finds the directory of PostgreSQL 15's programs, or of the newest
// that are there.
func programs() (string, error) {
	const wanted = "/usr/lib/postgresql/15/bin"
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", ErrMissing
	case slices.Contains(found, wanted):
		return wanted, nil
	}
	return found[len(found)-1], nil
}

// owner is whom the server runs as: not root, which PostgreSQL refuses. nil
// means ourselves.
func owner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// parent returns the directory in which to make the server's own: that of
// TMPDIR, unless it may be closed to the server's user or leaves no room for the
// path of a socket, which has at most 107 bytes (unix(7)).
func parent(as *syscall.Credential) string {
	const pathMax = 107 - len("/pgtest1234567890/.s.PGSQL.5432")
	if dir := os.TempDir(); as == nil && len(dir) <= pathMax {
		return dir
	}
	return "/tmp"
}

func (s *Server) start(ctx context.Context, bin string, as *syscall.Credential, files map[string][]byte, settings []string) error {
	if err := s.write(as, files); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--data-checksums")
	initdb.Dir = s.dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// Statements reads the log, so its language does not come from the environment.
	args := []string{"-D", data, "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "lc_messages=C"}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.command = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(bin, "postgres"), args...)
	s.command.Dir = s.dir
	s.command.Stderr = &s.said
	s.command.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
	if err := s.command.Start(); err != nil {
		return err
	}
	go func() { // ends with the server, which Stop waits for
		_ = s.command.Wait()
		close(s.ended)
	}()
	return s.await(ctx)
}

// write makes the files, and gives the directory with all in it to the user
// that the server runs as.
func (s *Server) write(as *syscall.Credential, files map[string][]byte) error {
	paths := []string{s.dir}
	for name, text := range files {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
		paths = append(paths, path)
	}
	for _, path := range paths {
		if as == nil {
			break
		}
		if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the server takes connections.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := pgx.Connect(ctx, s.url("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return fmt.Errorf("PostgreSQL ended: %s", s.said.String())
		case <-ctx.Done():
			return errors.Join(err, s.Stop())
		}
	}
}

func (s *Server) url(database string) string {
	return "postgres://postgres@/" + database + "?host=" + url.QueryEscape(s.dir)
}

// nextName returns a name that no other database, schema or role of the tests has.
func (s *Server) nextName() string { return fmt.Sprint("test", s.names.Add(1)) }

// Database creates an empty database and returns its URL.
func (s *Server) Database(ctx context.Context) (string, error) {
	name := s.nextName()
	return s.url(name), execute(ctx, s.url("postgres"), "CREATE DATABASE "+name)
}

// Schema creates an empty schema in a database that all callers share, and returns
// a URL with this schema as search_path. It needs a small part of the time of
// Database.
func (s *Server) Schema(ctx context.Context) (string, error) {
	name := s.nextName()
	shared := s.url("postgres")
	return inSchema(shared, name), execute(ctx, shared, "CREATE SCHEMA "+name)
}

// Stop ends the server at once and takes its files away.
func (s *Server) Stop() error {
	err := s.command.Process.Signal(syscall.SIGQUIT)
	<-s.ended
	return errors.Join(err, os.RemoveAll(s.dir))
}
