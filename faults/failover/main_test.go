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
)

// insideEnv says to the process that it is the inner one of TestMain. Its prefix
// is not that of the settings of the program, which refuses what it does not know.
const insideEnv = "FAILOVER_TEST_INSIDE"

// TestMain runs the tests in a process of their own, with its own process
// numbers, mounts and network. However that ends, the kernel ends what it
// started, and takes the hosts, their network and their files away.
func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		os.Exit(inside(m))
	}
	if unable() != "" {
		os.Exit(m.Run())
	}
	// The inner process has no network to fetch what a build needs.
	if out, err := exec.Command("go", "-C", "../..", "mod", "download").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "fetch the modules: %v\n%s", err, out)
		os.Exit(1)
	}
	runtime.LockOSThread() // the death signal comes when the thread that started the process ends
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
		fmt.Fprintln(os.Stderr, "run the tests in their own namespaces:", err)
		os.Exit(1)
	}
}

// inside runs the tests with all files in memory.
func inside(m *testing.M) (code int) {
	const files = "/run/failover" // short: a socket's path has 107 bytes at most
	err := errors.Join(
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"),
		os.Mkdir(files, 0o755),
		os.Setenv("TMPDIR", files),
		ip("link set lo up"),
		ip("link add hub type bridge"),
		ip("address add "+hub+"/24 dev hub"),
		ip("link set hub up"),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set the namespaces up:", err)
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

// hostFiles are what every host needs, and the packages they are in.
var hostFiles = map[string]string{postgresBin + "/postgres": "postgresql-15", "/usr/bin/psql": "postgresql-client-15", "/usr/sbin/ip": "iproute2"}

// unable says what is missing for these tests, or nothing.
func unable(needed ...map[string]string) string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	var missing []string
	for _, files := range append(needed, hostFiles) {
		for file, name := range files {
			if _, err := os.Stat(file); err != nil {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) == 0 {
		return ""
	}
	slices.Sort(missing)
	return "apt-get install " + strings.Join(missing, " ")
}

// needHosts skips a test that cannot work here, but not where it must.
func needHosts(t *testing.T, files map[string]string) {
	t.Helper()
	why := unable(files)
	switch {
	case why == "":
	case os.Getenv("CI") == "true":
		t.Fatal("NO FAILOVER WAS TRIED:", why)
	default:
		t.Skip("NO FAILOVER WAS TRIED:", why)
	}
}
