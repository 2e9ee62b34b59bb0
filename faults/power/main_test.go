//go:build linux

package power

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// insideEnv says to the process that it is the inner one of TestMain. Its prefix
// is not that of the settings of the program, which refuses what it does not know.
const insideEnv = "POWER_TEST_INSIDE"

// TestMain runs the tests in a process of their own, with its own mounts and
// process numbers. However that ends, by a timeout or a kill too, the kernel
// ends the servers that it started and takes its mounts and loop devices away.
func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" || unable() != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // the death signal comes when the thread that started the process ends
	command := exec.Command(os.Args[0], os.Args[1:]...)
	command.Env = append(os.Environ(), insideEnv+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
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

// needDevices skips a test that cannot work here, but not where it must.
func needDevices(t *testing.T) {
	t.Helper()
	why := unable()
	switch {
	case why == "":
	case os.Getenv("CI") == "true":
		t.Fatal("cannot cut the power here:", why)
	default:
		t.Skip("cannot cut the power here:", why)
	}
}
