// Package s3test runs an S3 server for tests on loopback: versitygw, which stores objects in a directory.
package s3test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

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
	process *childtest.Process
	output  childtest.Output
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
	program, err := childtest.Build(ctx, "versitygw")
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
	_, addresses, err := childtest.FreeAddresses(ctx, 1)
	if err == nil {
		s.Address, s.Endpoint = addresses[0], "http://"+addresses[0]
		err = s.Resume(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return s, nil
}

// metadata returns the directory of the metadata of objects. Without it the file system would need extended attributes.
func (s *Server) metadata() string { return filepath.Join(s.root, "metadata") }

// Resume starts the server again after Kill, at the same address with the same objects.
func (s *Server) Resume(ctx context.Context) (err error) {
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
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	s.process, err = childtest.Start(ctx, cmd, syscall.SIGKILL, &s.output, func() bool { return s.healthy(ctx) })
	return err
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
func (s *Server) Kill() { s.process.End() }

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
