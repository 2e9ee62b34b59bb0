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

	"plantstore/faults/rig"
)

// insideEnv marks the inner process of TestMain. The name has another prefix than the settings of the program, which
// rejects unknown ones.
const insideEnv = "POWER_TEST_INSIDE"

// TestMain runs the tests in a child process with its own mount and process namespaces. When that process ends, even by
// a timeout or a kill, the kernel ends its servers and removes its mounts and loop devices.
func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" || missingDevice() != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // the kernel sends the death signal when this thread ends
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

// needDevices skips a test on a machine without the devices. Under CI=true it fails.
func needDevices(t *testing.T) {
	t.Helper()
	missing := missingDevice()
	rig.Need(t, missing == "", missing)
}
