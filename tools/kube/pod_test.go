package kube

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	podAddress = "10.244.0.2" // on the loopback interface of the network namespace of the test
	podUser    = 65532
	waitMax    = 60 * time.Second
)

// node starts pods as a kubelet does, with crun.
type node struct {
	dir     string            // readable for every user
	rootfs  string            // the files of the image
	group   int               // fsGroup of the pods
	index   string            // of the pod in its StatefulSet
	volumes map[string]string // directories of the volumes of a pod, by the name of the volume
}

func newNode(t *testing.T, program string, template *corev1.PodTemplateSpec) *node {
	t.Helper()
	group := int(*template.Spec.SecurityContext.FSGroup)
	n := &node{dir: t.TempDir(), group: group, index: "0", volumes: map[string]string{}}
	n.rootfs = filepath.Join(n.dir, "rootfs")
	for _, dir := range []string{"proc", "dev", "data", "etc/plantstore"} {
		if err := os.MkdirAll(filepath.Join(n.rootfs, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Chmod(filepath.Dir(n.dir), 0o755), os.Link(program, filepath.Join(n.rootfs, "plantstore")))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// volume creates the directory of a volume as a kubelet does for a pod with fsGroup: with the group and the setgid bit.
func (n *node) volume(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(n.dir, "volume-"+name)
	err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 0, n.group), os.Chmod(dir, os.ModeSetgid|0o775))
	if err != nil {
		t.Fatal(err)
	}
	n.volumes[name] = dir
	return dir
}

// shareFiles gives the group access to the files of a volume, as a kubelet does when it mounts another volume in its
// place, such as a restored snapshot.
func (n *node) shareFiles(t *testing.T, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.volumes[name], "*"))
	for _, file := range files {
		err = errors.Join(err, os.Chown(file, -1, n.group), os.Chmod(file, 0o660))
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
}

// project writes the files of a ConfigMap or Secret as a kubelet does: in a new directory, to which ..data then points.
func (n *node) project(t *testing.T, name string, mode os.FileMode, files map[string][]byte) {
	t.Helper()
	dir := n.volumes[name]
	if dir == "" {
		dir = n.volume(t, name)
	}
	stamp := "..stamp-" + time.Now().Format("150405.000000000")
	content := filepath.Join(dir, stamp)
	fail := func(err error) {
		if err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	fail(os.Mkdir(content, 0o755))
	for file, data := range files {
		path := filepath.Join(content, file)
		fail(os.WriteFile(path, data, mode))
		fail(errors.Join(os.Chown(path, 0, n.group), os.Chmod(path, mode)))
		fail(os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)))
	}
	fail(os.Symlink(stamp, filepath.Join(dir, "..next")))
	fail(os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
}

// spec returns the config.json of the container of a template: the image's command and variables, the security context,
// the mounts, and the network of the test.
func (n *node) spec(t *testing.T, template *corev1.PodTemplateSpec, more []string) []byte {
	t.Helper()
	type object = map[string]any
	container := &template.Spec.Containers[0]
	mount := func(kind, source, destination string, options ...string) object {
		return object{"type": kind, "source": source, "destination": destination, "options": options}
	}
	mounts := []object{mount("proc", "proc", "/proc"), mount("tmpfs", "tmpfs", "/dev", "nosuid", "mode=755")}
	hosts := filepath.Join(n.rootfs, "etc/hosts")
	if err := os.WriteFile(hosts, []byte(podAddress+" db.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, m := range container.VolumeMounts {
		source := n.volumes[m.Name]
		if source == "" {
			t.Fatalf("the test has no volume %s", m.Name)
		}
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		if err := os.MkdirAll(filepath.Join(n.rootfs, m.MountPath), 0o755); err != nil {
			t.Fatal(err)
		}
		mounts = append(mounts, mount("bind", source, m.MountPath, "bind", access))
	}
	pod, security := template.Spec.SecurityContext, container.SecurityContext
	spec := object{
		"ociVersion": "1.0.0",
		"process": object{
			"user": object{
				"uid": pod.RunAsUser, "gid": pod.RunAsGroup, "additionalGids": []int{n.group},
			},
			"args": append([]string{"/plantstore"}, container.Args...), "cwd": "/data",
			"env":             append(environment(container, n.index), more...),
			"noNewPrivileges": !*security.AllowPrivilegeEscalation,
			"capabilities":    capabilities(security.Capabilities),
		},
		"root": object{"path": n.rootfs, "readonly": *security.ReadOnlyRootFilesystem}, "mounts": mounts,
		"linux": object{"namespaces": []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}}},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// capabilities returns those of a container engine, or none if the container drops all.
func capabilities(c *corev1.Capabilities) map[string][]string {
	if len(c.Drop) == 1 && c.Drop[0] == "ALL" && len(c.Add) == 0 {
		return map[string][]string{}
	}
	usual := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_NET_BIND_SERVICE"}
	return map[string][]string{"bounding": usual, "effective": usual, "permitted": usual}
}

// running is a container that runs.
type running struct {
	id     string
	cmd    *exec.Cmd
	stderr lockedBuffer
	ended  chan struct{} // closed when the container has ended
	err    error         // from Wait; valid when ended is closed
}

// start starts the container of a template. The end of the test removes it.
func (n *node) start(t *testing.T, template *corev1.PodTemplateSpec, more ...string) *running {
	t.Helper()
	bundle, err := os.MkdirTemp(n.dir, "bundle-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), n.spec(t, template, more), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &running{id: fmt.Sprintf("kube-%d-%s", os.Getpid(), filepath.Base(bundle)), ended: make(chan struct{})}
	c.cmd = exec.Command("crun", "--cgroup-manager=disabled", "run", "--bundle", bundle, c.id)
	c.cmd.Stderr = &c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reaper sync.WaitGroup
	reaper.Go(func() { c.err = c.cmd.Wait(); close(c.ended) })
	t.Cleanup(func() {
		_ = exec.Command("crun", "--cgroup-manager=disabled", "delete", "--force", c.id).Run() // or it has ended
		reaper.Wait()
	})
	return c
}

// exec returns the standard output of a command in the container, as kubectl exec does.
func (c *running) exec(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "crun", append([]string{
		"--cgroup-manager=disabled", "exec", fmt.Sprintf("--user=%d:%d", podUser, podUser), c.id, "/plantstore",
	}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, stderr.Bytes())
	}
	return string(out)
}

// signal sends a signal to the container and returns the error of its end.
func (c *running) signal(t *testing.T, name string) error {
	t.Helper()
	command := exec.CommandContext(t.Context(), "crun", "--cgroup-manager=disabled", "kill", c.id, name)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("crun kill: %v: %s", err, out)
	}
	return c.wait(t)
}

// wait waits for the end of the container and returns its error.
func (c *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-c.ended:
		return c.err
	case <-time.After(waitMax):
		t.Fatalf("the container runs after %s:\n%s", waitMax, c.stderr.String())
		return nil
	}
}

// lockedBuffer collects the log of a container.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// until repeats a check until it succeeds, at most for waitMax, and fails the test with its last error.
func until(t *testing.T, c *running, check func() error) {
	t.Helper()
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	limit := time.After(waitMax)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-every.C:
		case <-c.ended:
			t.Fatalf("%v; the container has ended: %v\n%s", err, c.err, c.stderr.String())
		case <-limit:
			t.Fatalf("%v after %s\n%s", err, waitMax, c.stderr.String())
		}
	}
}

// probe sends the request of a probe to the pod, as a kubelet does: without verification of the certificate.
func probe(t *testing.T, container *corev1.Container, p *corev1.Probe) error {
	t.Helper()
	port := 0
	for _, named := range container.Ports {
		if named.Name == p.HTTPGet.Port.StrVal {
			port = int(named.ContainerPort)
		}
	}
	url := fmt.Sprintf("%s://%s:%d%s", strings.ToLower(string(p.HTTPGet.Scheme)), podAddress, port, p.HTTPGet.Path)
	client := &http.Client{
		Timeout: time.Duration(p.TimeoutSeconds) * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		},
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// ready waits until the probes of the container succeed.
func (c *running) ready(t *testing.T, container *corev1.Container) {
	t.Helper()
	for _, p := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		until(t, c, func() error { return probe(t, container, p) })
	}
}

// caller sends requests to the public listener of a pod.
type caller struct {
	client *http.Client
	url    string
}

// newCaller returns a caller that trusts the roots; with nil it uses no TLS.
func newCaller(roots *x509.CertPool) *caller {
	c := &caller{url: "http://" + podAddress + ":8080"}
	c.client = &http.Client{Timeout: waitMax, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12},
	}}
	if roots != nil {
		c.url = "https://" + podAddress + ":8080"
	}
	return c
}

// create creates a plant, and returns the body and whether the response is a replay.
func (c *caller) create(t *testing.T, token, plant string) (body string, replayed bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/plants", strings.NewReader(plant))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("create: %s: %s %v", response.Status, text, err)
	}
	return string(text), response.Header.Get("Idempotent-Replayed") == "true"
}

// insideEnv tells the test binary that it runs in namespaces of its own. Its value is the path of the program.
const insideEnv = "KUBE_TEST_INSIDE"

// inside runs a test again, as root in new namespaces of network and mounts, where the address of the pod is free, and
// returns true there. In the first process it returns false after the test has run.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("a pod needs root, to change to its user")
	}
	need(t, "crun")
	need(t, "ip")
	// crun refuses machines that have both versions of cgroups.
	const script = `umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup && ip link set lo up &&
		ip address add ` + podAddress + `/32 dev lo && exec "$@"`
	command := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "sh", "-c", script, "sh",
		os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), insideEnv+"="+buildProgram(t))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		t.Log(lines.Text())
	}
	return false
}
