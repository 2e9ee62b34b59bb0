//go:build !windows

package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"plantstore/client"
)

// The server of all tests but those that stop theirs, and of the examples.
var shared *service

func TestMain(m *testing.M) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PLANTSTORE_") {
			_ = os.Unsetenv(name) // the servers of the tests must not read the settings of the user
		}
	}
	os.Exit(withServer(m.Run))
}

func withServer(run func() int) int {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "plantstore")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "plantstore/cmd/plantstore")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	if shared, err = newService(program, dir); err != nil {
		panic(err)
	}
	defer shared.stop(syscall.SIGTERM)
	return run()
}

// service is a server: the program itself.
type service struct {
	program, dir   string
	token, address string
	process        *exec.Cmd
}

// newService starts a server with a new store in dir.
func newService(program, dir string) (*service, error) {
	s := &service{program: program, dir: dir, address: "127.0.0.1:0"}
	if runtime.GOOS == "linux" { // other processes do not take the port while the server is stopped
		s.address = fmt.Sprintf("127.%d.%d.%d:0", 2+rand.N(250), 2+rand.N(250), 2+rand.N(250))
	}
	out, err := exec.Command(program, "token", "create", "tests", "--no-expiry", "--create", "--db", s.db()).Output()
	if err != nil {
		return nil, describe(err)
	}
	s.token = strings.TrimSpace(string(out))
	return s, s.start()
}

func (s *service) db() string { return filepath.Join(s.dir, "plants.db") }

var ready = regexp.MustCompile(`msg=ready listen=(\S+)`)

// start starts the server, at the second time with the same address.
func (s *service) start() error {
	s.process = exec.Command(s.program, "serve", "--db", s.db(), "--listen", s.address, "--admin-listen", "127.0.0.1:0",
		// These add headers to each response.
		"--cors-origins", "https://shop.example", "--credential-rate", "1000000", "--credential-concurrency", "1000")
	log, err := s.process.StderrPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if found := ready.FindStringSubmatch(lines.Text()); found != nil {
			s.address = found[1]
			go io.Copy(io.Discard, log) //nolint:errcheck // until the server ends
			return nil
		}
	}
	return fmt.Errorf("the server ended before it was ready: %w", s.process.Wait())
}

func (s *service) stop(by os.Signal) {
	_ = s.process.Process.Signal(by)
	_ = s.process.Wait() // an error for a killed process
}

// own starts a server for one test.
func own(t *testing.T) *service {
	t.Helper()
	s, err := newService(shared.program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	return s
}

// client returns a client of the server.
func (s *service) client(t *testing.T, options ...client.Option) *client.Client {
	t.Helper()
	return newClient(t, "http://"+s.address, append([]client.Option{client.WithToken(s.token)}, options...)...)
}

func describe(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}
