package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// imageBytesMax allows libraries in place of our own code. A sudden growth must not go unnoticed.
const imageBytesMax = 45_000_000

// buildProgram returns the path of a static build of the program.
func buildProgram(t *testing.T, arch string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plantstore")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-buildmode=exe",
		"-ldflags=-s -w -buildid=", "-o", path, "./cmd/plantstore")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func writeImage(t *testing.T, programs ...string) layout.Path {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	args := append([]string{"-created", "2026-03-03T12:00:00Z", "-revision", "abc", dir}, programs...)
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	return layout.Path(dir)
}

func images(t *testing.T, path layout.Path) []v1.Image {
	t.Helper()
	entries, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(entries); err != nil {
		t.Fatal(err)
	}
	entry, err := entries.IndexManifest()
	if err != nil || len(entry.Manifests) != 1 {
		t.Fatalf("got %d entries, %v; want 1", len(entry.Manifests), err)
	}
	index, err := entries.ImageIndex(entry.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var all []v1.Image
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, image)
	}
	return all
}

// The image has both platforms, is small, and depends only on its sources. A container keeps its plants after SIGKILL.
func TestImage(t *testing.T) {
	amd64, arm64 := buildProgram(t, "amd64"), buildProgram(t, "arm64")
	path := writeImage(t, amd64, arm64)
	first, second := digest(t, path), digest(t, writeImage(t, amd64, arm64))
	if first != second {
		t.Errorf("the digests of two images of the same programs differ: %s and %s", first, second)
	}
	all := images(t, path)
	for i, arch := range []string{"amd64", "arm64"} {
		checkConfig(t, all[i], arch)
		if size := len(files(t, all[i])); size > imageBytesMax {
			t.Errorf("%s: the files have %d bytes, want at most %d", arch, size, imageBytesMax)
		}
	}
	t.Run("skopeo", func(t *testing.T) { copyImage(t, path) })
	t.Run("container", func(t *testing.T) { runContainer(t, all[0]) })
}

// copyImage copies all platforms with Skopeo, which also checks the hashes.
func copyImage(t *testing.T, path layout.Path) {
	need(t, "skopeo")
	to := t.TempDir()
	command := exec.CommandContext(t.Context(),
		"skopeo", "--insecure-policy", "copy", "--all", "oci:"+string(path), "dir:"+to)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("skopeo: %v: %s", err, out)
	}
	manifests, err := filepath.Glob(filepath.Join(to, "*.manifest.json"))
	if err != nil || len(manifests) != 2 {
		t.Errorf("skopeo copied %d images, %v; want 2", len(manifests), err)
	}
}

// need skips a test without a program; under CI=true that is a failure.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing", program)
	}
	t.Skipf("%s is missing", program)
}

func digest(t *testing.T, path layout.Path) v1.Hash {
	t.Helper()
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func checkConfig(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.OS != "linux" || config.Config.User != "65532:65532" {
		t.Errorf("got %s/%s, user %s", config.OS, config.Architecture, config.Config.User)
	}
	if got := strings.Join(config.Config.Healthcheck.Test, " "); got != "CMD /plantstore health" {
		t.Errorf("health check: got %q", got)
	}
}

// files returns the tar archive of the files of an image.
func files(t *testing.T, image v1.Image) []byte {
	t.Helper()
	reader := mutate.Extract(image)
	defer reader.Close()
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestProgramsThatAreRefused(t *testing.T) {
	host, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"no program", "1 arguments", []string{"dir"}},
		{"time", "-created", []string{"-created", "now", "dir", host}},
		{"another file", "image.go: ", []string{"dir", "image.go"}},
		{"directory", "is not empty", []string{full}},
	} {
		args := tt.args
		if tt.name == "directory" {
			args = append(args, buildStatic(t))
		}
		if err := run(args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// buildStatic returns the path of a small static program.
func buildStatic(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// container is a container of crun.
type container struct {
	id     string
	cmd    *exec.Cmd
	reader sync.WaitGroup // reads the log; it ends with the container
	public string         // URL
	admin  string         // host and port
}

func runContainer(t *testing.T, image v1.Image) {
	if os.Geteuid() != 0 {
		t.Skip("crun needs root to change to the user of the image")
	}
	need(t, "crun")
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, user, user)); err != nil {
		t.Fatal(err)
	}
	unpack(t, files(t, image), filepath.Join(dir, "rootfs"))
	writeSpec(t, image, dir, data)

	c := start(t, dir)
	checkIsolation(t, c)
	token := strings.TrimSpace(lastLine(c.exec(t, "token", "create", "owner", "--create", "--no-expiry")))
	if got := c.exec(t, "health", "--admin-listen", c.admin); got != "ready\n" {
		t.Errorf("health: got %q", got)
	}
	const fern = `{"id":1,"name":"Fern"}`
	created := c.create(t, token, fern)
	c.kill(t)

	c = start(t, dir)
	if got := c.create(t, token, fern); got != created {
		t.Errorf("the replay after SIGKILL: got %s, want %s", got, created)
	}
	if got := c.exec(t, "list", "--json"); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"Fern"`) {
		t.Errorf("the stored plants: %s", got)
	}
	c.kill(t)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// unpack writes the files of a tar archive with their owners.
func unpack(t *testing.T, archive []byte, root string) {
	t.Helper()
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, os.FileMode(header.Mode))
		} else {
			var content []byte
			if content, err = io.ReadAll(reader); err == nil {
				err = os.MkdirAll(filepath.Dir(path), 0o755)
			}
			if err == nil {
				err = os.WriteFile(path, content, os.FileMode(header.Mode))
			}
		}
		if err := errors.Join(err, os.Chown(path, header.Uid, header.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}

// writeSpec writes the config.json of a container with the command, variables and user of the image, a read-only root,
// no capability, and the network of this machine.
func writeSpec(t *testing.T, image v1.Image, dir, data string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	env := append(config.Config.Env, "PLANTSTORE_LISTEN=127.0.0.1:0", "PLANTSTORE_ADMIN_LISTEN=127.0.0.1:0")
	type object = map[string]any
	mount := func(kind, source, destination string, options ...string) object {
		return object{"type": kind, "source": source, "destination": destination, "options": options}
	}
	spec := object{
		"ociVersion": "1.0.0",
		"process": object{
			"user": object{"uid": user, "gid": user}, "args": append(config.Config.Entrypoint, config.Config.Cmd...),
			"env": env, "cwd": config.Config.WorkingDir, "noNewPrivileges": true,
		},
		"root": object{"path": "rootfs", "readonly": true},
		"mounts": []object{
			mount("proc", "proc", "/proc"), mount("tmpfs", "tmpfs", "/dev", "nosuid", "mode=755"),
			mount("bind", data, dataDir, "bind", "rw"),
		},
		"linux": object{"namespaces": []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}}},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

var readyLine = regexp.MustCompile(`msg=ready listen=\S+ public=(\S+) admin=http://(\S+)`)

// start starts the container, and waits until it listens. The end of the test removes it.
func start(t *testing.T, dir string) *container {
	t.Helper()
	c := &container{id: "plantstore-" + filepath.Base(t.TempDir()) + "-" + time.Now().Format("150405.000000")}
	c.cmd = crun("run", "--bundle", dir, c.id)
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = crun("delete", "--force", c.id).Run() // or it has ended
		c.reader.Wait()
		_ = c.cmd.Wait()
	})
	log := bufio.NewScanner(stderr)
	var seen []string
	for log.Scan() {
		seen = append(seen, log.Text())
		if match := readyLine.FindStringSubmatch(log.Text()); match != nil {
			c.public, c.admin = match[1], match[2]
			c.reader.Go(func() { _, _ = io.Copy(io.Discard, stderr) }) // a full pipe would block the program
			return c
		}
	}
	t.Fatalf("the container ended: %s", strings.Join(seen, "\n"))
	return nil
}

// crun returns a command of crun, in a mount namespace where /sys/fs/cgroup has the second version alone: crun refuses
// machines that have both.
func crun(args ...string) *exec.Cmd {
	const script = `umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup &&
		exec crun --cgroup-manager=disabled "$@"`
	return exec.Command("unshare", append([]string{"--mount", "sh", "-c", script, "sh"}, args...)...)
}

// exec returns the standard output of a command of the program in the container.
func (c *container) exec(t *testing.T, args ...string) string {
	t.Helper()
	command := crun(append([]string{"exec", "--user=65532:65532", c.id, program}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, stderr.Bytes())
	}
	return string(out)
}

// create creates a plant and returns the body of the response.
func (c *container) create(t *testing.T, token, plant string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.public+"/plants", strings.NewReader(plant))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("create: %s: %s %v", response.Status, body, err)
	}
	return string(body)
}

// kill ends the container with SIGKILL.
func (c *container) kill(t *testing.T) {
	t.Helper()
	if out, err := crun("kill", c.id, "KILL").CombinedOutput(); err != nil {
		t.Fatalf("crun kill: %v: %s", err, out)
	}
	c.reader.Wait()
	_ = c.cmd.Wait() // the error is the signal
}

// checkIsolation checks the user of the process, and that its root is read-only.
func checkIsolation(t *testing.T, c *container) {
	t.Helper()
	out, err := crun("state", c.id).Output()
	var state struct{ Pid int }
	if err := errors.Join(err, json.Unmarshal(out, &state)); err != nil {
		t.Fatal(err)
	}
	proc := filepath.Join("/proc", strconv.Itoa(state.Pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nUid:\t65532\t65532\t65532\t65532\n", "\nCapEff:\t0000000000000000\n", "\nNoNewPrivs:\t1\n",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("/proc/PID/status has no line %q", want)
		}
	}
	for _, dir := range []string{"/", "/etc"} {
		err := os.WriteFile(filepath.Join(proc, "root", dir, "file"), nil, 0o600)
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("write in %s: got %v, want %v", dir, err, syscall.EROFS)
		}
	}
}
