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

// hub is the address of the tests' own end of the network. The servers and etcd
// run there.
const hub = "10.77.0.254"

// host is a machine as far as its processes and its network go.
type host struct {
	t       testing.TB
	name    string
	address string
	dir     string // of its files; owned by postgres
	command []string

	init  *exec.Cmd // its process 1: all others end with it
	ended chan struct{}
}

// newHost makes a host that runs a command as the user postgres, which start
// starts.
func newHost(t testing.TB, name, address string) *host {
	t.Helper()
	h := &host{t: t, name: name, address: address, dir: filepath.Join(os.TempDir(), name)} // t.TempDir is for root alone
	out, err := exec.Command("install", "-d", "-o", "postgres", "-m", "700", h.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("make %s: %v\n%s", h.dir, err, out)
	}
	for _, arguments := range []string{
		"netns add " + name,
		"link add to-" + name + " type veth peer name eth0 netns " + name,
		"link set to-" + name + " master hub up",
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
		_ = errors.Join(os.RemoveAll(h.dir), ip("link delete to-"+name), ip("netns delete "+name)) // else they go with the process
	})
	return h
}

// hostScript gives a host's processes their own /proc and directory of sockets.
const hostScript = `mkdir -p /run/postgresql && mount -t tmpfs -o mode=1777 run /run/postgresql && mount -t proc proc /proc && exec "$@"`

// start starts the host.
func (h *host) start() {
	h.t.Helper()
	log, err := os.OpenFile(h.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{"netns", "exec", h.name, "sh", "-c", hostScript, h.name}, h.asPostgres("/run/postgresql", h.command...)...)
	h.init = exec.Command("ip", args...)
	h.init.Stdout, h.init.Stderr = log, log
	h.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := h.init.Start(); err != nil {
		h.t.Fatal(err)
	}
	ended := make(chan struct{})
	h.ended = ended
	go func(init *exec.Cmd) { // ends with the host, which kill waits for
		defer close(ended)
		_ = init.Wait()
	}(h.init)
}

// asPostgres is a command line that runs a command as the user postgres. What it
// keeps while it runs is in a directory of its own.
func (h *host) asPostgres(running string, command ...string) []string {
	return append([]string{
		"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups",
		"env", "-C", h.dir, "HOME=" + h.dir, "XDG_RUNTIME_DIR=" + running, "LC_ALL=C.UTF-8",
	}, command...)
}

// beside runs a command with the host's files, but outside the host.
func (h *host) beside(command ...string) error {
	args := h.asPostgres(h.dir, command...)
	if out, err := exec.CommandContext(h.t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}

// data is where PostgreSQL has its files.
func (h *host) data() string { return filepath.Join(h.dir, "data") }

// initdb makes a database which everybody on the network may use, with some
// settings.
func (h *host) initdb(settings string) {
	h.t.Helper()
	if err := h.beside(postgresBin+"/initdb", "--pgdata", h.data(), "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--data-checksums"); err != nil {
		h.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"postgresql.conf": settings,
		"pg_hba.conf":     "host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n",
	} {
		file, err := os.OpenFile(filepath.Join(h.data(), name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		_, err = file.WriteString(text)
		if err := errors.Join(err, file.Close()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// kill ends all processes of the host with SIGKILL, and waits.
func (h *host) kill() {
	if h.init == nil {
		return
	}
	_ = h.init.Process.Kill() // it may have ended
	<-h.ended
	h.init = nil
}

// freeze stops all processes of the host where they are; its kernel still
// answers for their connections. thaw lets them go on.
func (h *host) freeze() { h.signal(syscall.SIGSTOP) }
func (h *host) thaw()   { h.signal(syscall.SIGCONT) }

// signal sends a signal to all processes of the host, until there is none that
// has not got it.
func (h *host) signal(s syscall.Signal) {
	h.t.Helper()
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.init.Process.Pid))
	if err != nil {
		h.t.Fatal(err)
	}
	sent := map[int]bool{}
	for before := -1; before < len(sent); {
		before = len(sent)
		paths, _ := filepath.Glob("/proc/[0-9]*/ns/pid") // the pattern is right
		for _, path := range paths {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			if space, err := os.Readlink(path); err == nil && space == own && !sent[pid] {
				sent[pid] = true
				_ = syscall.Kill(pid, s) // it may have ended
			}
		}
	}
}

// cut takes the host off the network without a word to anybody. heal puts it
// back.
func (h *host) cut()  { h.link("down") }
func (h *host) heal() { h.link("up") }

func (h *host) link(to string) {
	h.t.Helper()
	if err := ip("link set to-" + h.name + " " + to); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) log() string { return filepath.Join(h.dir, "log") }

// tail is the end of what the host's processes wrote.
func (h *host) tail() string {
	out, _ := exec.Command("tail", "-n", "40", h.log()).CombinedOutput()
	return fmt.Sprintf("--- %s\n%s", h.name, out)
}
