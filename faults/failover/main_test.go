package failover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plantstore/faults/rig"
)

// insideEnv marks the inner process of TestMain. Plant Store refuses unknown variables with its own prefix, so the name
// has another prefix.
const insideEnv = "FAILOVER_TEST_INSIDE"

// TestMain runs the tests in an inner process with its own process, mount and network namespaces. When that process
// ends, for any reason, the kernel kills its child processes and removes the hosts, their network and their files.
func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		os.Exit(inside(m))
	}
	if missing() != "" {
		os.Exit(m.Run())
	}
	// The inner process has no network to download modules.
	if out, err := exec.Command("go", "-C", "../..", "mod", "download").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "download the modules: %v\n%s", err, out)
		os.Exit(1)
	}
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	command := exec.Command(os.Args[0], os.Args[1:]...)
	command.Env = append(os.Environ(), insideEnv+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "run the tests in new namespaces:", err)
		os.Exit(1)
	}
}

// inside runs the tests in the inner process, with all files in memory.
func inside(m *testing.M) (code int) {
	const files = "/run/failover" // short: the path of a socket has at most 107 bytes
	err := errors.Join(
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"),
		os.Mkdir(files, 0o755),
		os.Setenv("TMPDIR", files),
		ip("link set lo up"),
		ip("link add bridge0 type bridge"),
		ip("address add "+bridgeAddress+"/24 dev bridge0"),
		ip("link set bridge0 up"),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up the namespaces:", err)
		return 1
	}
	return m.Run()
}

// ip runs iproute2's program.
func ip(arguments string) error {
	out, err := exec.Command("ip", strings.Fields(arguments)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", arguments, err, out)
	}
	return nil
}

// hostFiles are the files that each host needs, with their packages.
var hostFiles = map[string]string{
	postgresBin + "/postgres": "postgresql-15",
	"/usr/bin/psql":           "postgresql-client-15",
	"/usr/sbin/ip":            "iproute2",
}

// missing returns the missing requirements of the tests; empty if they can run. The maps have needed files with their
// packages.
func missing(needed ...map[string]string) string {
	if os.Geteuid() != 0 {
		return "root"
	}
	var packages []string
	for _, files := range append(needed, hostFiles) {
		for file, name := range files {
			if _, err := os.Stat(file); err != nil {
				packages = append(packages, name)
			}
		}
	}
	if len(packages) == 0 {
		return ""
	}
	slices.Sort(packages)
	return "the Debian packages " + strings.Join(packages, ", ")
}

// requireHosts skips a test whose requirements are missing; under CI=true it fails the test.
func requireHosts(t *testing.T, files map[string]string) {
	t.Helper()
	requirement := missing(files)
	rig.Need(t, requirement == "", requirement)
}
