package failover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// bridgeAddress is the address of the test process on the network. The servers and etcd run there.
const bridgeAddress = "10.77.0.254"

// host simulates a machine: it has its own processes and network.
type host struct {
	t       testing.TB
	name    string
	address string
	dir     string // has its files; owned by postgres
	command []string

	init  *exec.Cmd     // its process 1: the others end with it; nil if the host is not started
	ended chan struct{} // closed when init has ended
}

// newHost creates a host without processes. Callers set its command, which start runs as the user postgres. The end of
// the test deletes the host.
func newHost(t testing.TB, name, address string) *host {
	t.Helper()
	h := &host{t: t, name: name, address: address, dir: filepath.Join(os.TempDir(), name)} // only root may enter t.TempDir
	out, err := exec.Command("install", "-d", "-o", "postgres", "-m", "700", h.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("create %s: %v\n%s", h.dir, err, out)
	}
	for _, arguments := range []string{
		"netns add " + name,
		"link add to-" + name + " type veth peer name eth0 netns " + name,
		"link set to-" + name + " master bridge0 up",
		"-n " + name + " address add " + address + "/24 dev eth0",
		"-n " + name + " link set lo up",
		"-n " + name + " link set eth0 up",
	} {
		if err := ip(arguments); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		h.kill()
		// after an error the end of the test process deletes them
		_ = errors.Join(os.RemoveAll(h.dir), ip("link delete to-"+name), ip("netns delete "+name))
	})
	return h
}

// hostScript mounts /proc and the directory of sockets for a host's processes.
const hostScript = `mkdir -p /run/postgresql && mount -t tmpfs -o mode=1777 run /run/postgresql &&
	mount -t proc proc /proc && exec "$@"`

// start starts the host.
func (h *host) start() {
	h.t.Helper()
	log, err := os.OpenFile(h.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{"netns", "exec", h.name, "sh", "-c", hostScript, h.name},
		h.asPostgres("/run/postgresql", h.command...)...)
	h.init = exec.Command("ip", args...)
	h.init.Stdout, h.init.Stderr = log, log
	h.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := h.init.Start(); err != nil {
		h.t.Fatal(err)
	}
	ended := make(chan struct{})
	h.ended = ended
	go func(init *exec.Cmd) { // ends with the host; kill waits for it
		defer close(ended)
		_ = init.Wait()
	}(h.init)
}

// asPostgres returns the command line that runs a command as the user postgres, with its sockets and other runtime
// files in runtimeDir.
func (h *host) asPostgres(runtimeDir string, command ...string) []string {
	return append([]string{
		"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups",
		"env", "-C", h.dir, "HOME=" + h.dir, "XDG_RUNTIME_DIR=" + runtimeDir, "LC_ALL=C.UTF-8",
	}, command...)
}

// runOutside runs a command on the host's files, but outside its namespaces.
func (h *host) runOutside(command ...string) error {
	args := h.asPostgres(h.dir, command...)
	if out, err := exec.CommandContext(h.t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}

// dataDir returns PostgreSQL's data directory.
func (h *host) dataDir() string { return filepath.Join(h.dir, "data") }

// initdb creates a PostgreSQL cluster with some settings. It trusts all hosts of the network.
func (h *host) initdb(settings string) {
	h.t.Helper()
	err := h.runOutside(postgresBin+"/initdb", "--pgdata", h.dataDir(),
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--data-checksums")
	if err != nil {
		h.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"postgresql.conf": settings,
		"pg_hba.conf":     "host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n",
	} {
		file, err := os.OpenFile(filepath.Join(h.dataDir(), name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		_, err = file.WriteString(text)
		if err := errors.Join(err, file.Close()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// kill ends all processes of the host with SIGKILL, and waits for their end.
func (h *host) kill() {
	if h.init == nil {
		return
	}
	_ = h.init.Process.Kill() // fails if it has ended
	<-h.ended
	h.init = nil
}

// freeze stops all processes of the host with SIGSTOP; the kernel still acknowledges packets on their connections. thaw
// continues them.
func (h *host) freeze() { h.signal(syscall.SIGSTOP) }
func (h *host) thaw()   { h.signal(syscall.SIGCONT) }

// signal sends a signal to all processes of the host. It repeats the search until it finds no new process.
func (h *host) signal(s syscall.Signal) {
	h.t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.init.Process.Pid))
	if err != nil {
		h.t.Fatal(err)
	}
	sent := map[int]bool{}
	for before := -1; before < len(sent); {
		before = len(sent)
		paths, _ := filepath.Glob("/proc/[0-9]*/ns/pid") // the pattern is valid
		for _, path := range paths {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			if namespace, err := os.Readlink(path); err == nil && namespace == own && !sent[pid] {
				sent[pid] = true
				_ = syscall.Kill(pid, s) // fails if the process has ended
			}
		}
	}
}

// cut disconnects the host from the network without closing its connections. connect connects it again.
func (h *host) cut()     { h.setLink("down") }
func (h *host) connect() { h.setLink("up") }

func (h *host) setLink(state string) {
	h.t.Helper()
	if err := ip("link set to-" + h.name + " " + state); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) logFile() string { return filepath.Join(h.dir, "log") }

// logTail returns the last log lines of the host's processes.
func (h *host) logTail() string {
	out, _ := exec.Command("tail", "-n", "40", h.logFile()).CombinedOutput()
	return fmt.Sprintf("--- %s\n%s", h.name, out)
}
