// Package pgtest runs a PostgreSQL server for tests with the installed programs. The server has the settings of a fresh
// installation, its own directory, and no port.
package pgtest

import (
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

	"plantstore/internal/childtest"
)

// init removes libpq's variables from the environment of the tests: they would point clients at another server
// (https://www.postgresql.org/docs/current/libpq-envars.html).
func init() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for an invalid name
		}
	}
}

// ErrMissing means that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed: apt-get install postgresql")

// Server is a running PostgreSQL server. Its socket is in its directory.
type Server struct {
	dir     string
	command *exec.Cmd
	process *childtest.Process
	output  childtest.Output
	names   atomic.Int64 // the last number of nextName
}

// Start starts a server with additional settings, such as "log_statement=all". The caller stops it.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	return startWith(ctx, nil, settings)
}

// startWith is Start for a server with files in its directory, by name.
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
	s := &Server{dir: dir}
	if err := s.start(ctx, bin, as, files, settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Around starts a server, sets *server, runs the tests of a package, and returns their exit code. If PostgreSQL is not
// installed, *server is nil; with CI=true, that is a failure.
func Around(run func() int, server **Server) (code int) {
	s, err := Start(context.Background())
	if err != nil && (!errors.Is(err, ErrMissing) || os.Getenv("CI") == "true") {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*server = s
	code = run()
	if s == nil {
		fmt.Fprintln(os.Stderr, "SKIPPED ALL TESTS WITH POSTGRESQL:", err)
	} else if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// programs returns the directory of the programs: PLANTSTORE_TEST_POSTGRES, PostgreSQL 15, or the newest installed
// version.
func programs() (string, error) {
	if dir := os.Getenv("PLANTSTORE_TEST_POSTGRES"); dir != "" {
		return dir, nil
	}
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

// owner returns the user of the server: the current user (nil), or postgres instead of root, which PostgreSQL refuses.
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

// parent returns the parent of the server's directory: TMPDIR, or /tmp if the server's user may have no access to
// TMPDIR, or if its path is too long for the path of a socket, which has at most 107 bytes (unix(7)).
func parent(as *syscall.Credential) string {
	const pathMax = 107 - len("/pgtest1234567890/.s.PGSQL.5432")
	if dir := os.TempDir(); as == nil && len(dir) <= pathMax {
		return dir
	}
	return "/tmp"
}

func (s *Server) start(
	ctx context.Context, bin string, as *syscall.Credential, files map[string][]byte, settings []string,
) error {
	if err := s.write(as, files); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-sync")
	initdb.Dir = s.dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	args := []string{
		"-D", data, "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200",
		"-c", "lc_messages=C", // Statements reads the log
	}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.command = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(bin, "postgres"), args...)
	s.command.Dir = s.dir
	s.command.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return s.launch(ctx)
}

// launch starts the process of the server.
func (s *Server) launch(ctx context.Context) (err error) {
	s.process, err = launch(ctx, s.command, syscall.SIGQUIT, &s.output, s.url("postgres"))
	return err
}

// launch starts a program, and waits until it accepts connections to a database.
func launch(
	ctx context.Context, command *exec.Cmd, end syscall.Signal, output *childtest.Output, url string,
) (*childtest.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return childtest.Start(ctx, command, end, output, func() bool {
		c, err := pgx.Connect(ctx, url)
		return err == nil && c.Close(ctx) == nil
	})
}

// Crash stops the server at once, without a checkpoint, and starts it again.
func (s *Server) Crash(ctx context.Context) error {
	s.process.End()
	again := exec.CommandContext(context.WithoutCancel(ctx), s.command.Path, s.command.Args[1:]...)
	again.Dir, again.SysProcAttr = s.command.Dir, s.command.SysProcAttr
	s.command = again
	return s.launch(ctx)
}

// write writes the files, and makes the server's user the owner of the directory and of the files.
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

// Schema creates an empty schema in a database that all callers share, and returns a URL with this schema as
// search_path. It needs a small part of the time of Database.
func (s *Server) Schema(ctx context.Context) (string, error) {
	name := s.nextName()
	shared := s.url("postgres")
	return inSchema(shared, name), execute(ctx, shared, "CREATE SCHEMA "+name)
}

// Stop stops the server at once and removes its files.
func (s *Server) Stop() error {
	s.process.End()
	return os.RemoveAll(s.dir)
}
