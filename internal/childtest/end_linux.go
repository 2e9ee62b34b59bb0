package childtest

import (
	"os/exec"
	"syscall"
)

// endWithTest lets the kernel send the signal to the process of the command when the thread that starts it ends, at the
// latest with the test program, also if that is killed. Other systems than Linux have nothing like it. The other
// attributes of the command stay.
func endWithTest(command *exec.Cmd, signal syscall.Signal) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = signal
}
