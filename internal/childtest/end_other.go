//go:build !linux

package childtest

import (
	"os/exec"
	"syscall"
)

// endWithTest does nothing: a server of a killed test program continues on this system.
func endWithTest(*exec.Cmd, syscall.Signal) {}
