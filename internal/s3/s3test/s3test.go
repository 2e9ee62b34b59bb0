// Package s3test runs an S3 server for tests on loopback: versitygw, which stores objects in a directory.
package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"plantstore/internal/childtest"
)

// The keys and the bucket of each server.
const (
	AccessKey = "nursery"
	SecretKey = "nursery-secret-of-tests"
	Bucket    = "nursery-backups"
)

// Server is a running S3 server. Its methods are not safe for concurrent use.
type Server struct {
	Endpoint string // URL
	Address  string // host and port
	Dir      string // has the buckets

	root    string
	diskMiB int // 0: the disk of root
	program string
	command *exec.Cmd
	exited  chan struct{}
	output  buffer
}

// buffer is a bytes.Buffer for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the bytes so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// ErrMissing means that the system does not let the user mount a small disk.
var ErrMissing = errors.New("unshare with a user namespace is not possible here")

// Start builds versitygw from tools/versitygw.mod and starts it with a bucket. The caller stops the server.
func Start(ctx context.Context) (*Server, error) { return start(ctx, 0) }

// StartSmall starts a server with a disk of some MiB, which a Kill empties. The error wraps ErrMissing if the system
// does not allow that.
func StartSmall(ctx context.Context, diskMiB int) (*Server, error) {
	probe := exec.CommandContext(ctx, "unshare", "--user", "--map-root-user", "--mount",
		"sh", "-c", "mount -t tmpfs tmpfs /mnt")
	if out, err := probe.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %w: %s", ErrMissing, err, out)
	}
	return start(ctx, diskMiB)
}

func start(ctx context.Context, diskMiB int) (*Server, error) {
	program, err := build(ctx)
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "s3test")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: filepath.Join(root, "buckets"), root: root, diskMiB: diskMiB, program: program}
	for _, dir := range []string{filepath.Join(s.Dir, Bucket), s.metadata()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, errors.Join(err, os.RemoveAll(root))
		}
	}
	if s.Address, err = freeAddress(ctx); err == nil {
		s.Endpoint = "http://" + s.Address
		err = s.Resume(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return s, nil
}

// metadata returns the directory of the metadata of objects. Without it the file system would need extended attributes.
func (s *Server) metadata() string { return filepath.Join(s.root, "metadata") }

// build returns the path of the program, which the build cache usually has.
func build(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "plantstore").Output() // also of faults/
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/versitygw.mod", "-n", "versitygw")
	cmd.Dir = strings.TrimSpace(string(root))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build versitygw: %w\n%s", err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// freeAddress returns a free address on loopback. No other test and no client has the same host, so the port stays free
// while the server is killed.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	host := net.IPv4(127, byte(1+rand.N(250)), byte(rand.N(250)), byte(2+rand.N(250))) //nolint:gosec // no secret
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host.String(), "0"))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Resume starts the server again after Kill, at the same address with the same objects.
func (s *Server) Resume(ctx context.Context) error {
	command := []string{
		s.program, "--port", s.Address, "--health", "/health", "--quiet", "--keep-alive",
		"posix", "--sidecar", s.metadata(), s.Dir,
	}
	if s.diskMiB > 0 {
		const mount = `mount -t tmpfs -o size="$0" tmpfs "$1" && mkdir -p "$2" "$3" && shift 3 && exec "$@"`
		command = append([]string{
			"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount,
			fmt.Sprintf("%dm", s.diskMiB), s.root, filepath.Join(s.Dir, Bucket), s.metadata(),
		}, command...)
	}
	s.command = exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	s.command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	s.command.Stdout, s.command.Stderr = &s.output, &s.output
	childtest.EndWithTest(s.command, syscall.SIGKILL)
	if err := s.command.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.exited = exited
	go func(cmd *exec.Cmd) { // ends with the process; Kill waits for it
		_ = cmd.Wait()
		close(exited)
	}(s.command)
	for !s.healthy(ctx) {
		select {
		case <-exited:
			return fmt.Errorf("versitygw has exited: %s", &s.output)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (s *Server) healthy(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/health", http.NoBody)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// Kill kills the server; Resume starts it again.
func (s *Server) Kill() {
	_ = s.command.Process.Kill()
	<-s.exited
}

// Stop kills the server and removes its objects.
func (s *Server) Stop() error {
	s.Kill()
	return os.RemoveAll(s.root)
}

// Objects returns the sizes of the objects in the bucket by their keys.
func (s *Server) Objects() (map[string]int64, error) {
	all := map[string]int64{}
	bucket := filepath.Join(s.Dir, Bucket)
	err := filepath.WalkDir(bucket, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".sgwtmp": // the unfinished uploads
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		if err == nil {
			all[strings.TrimPrefix(path, bucket+"/")] = info.Size()
		}
		return err
	})
	return all, err
}
