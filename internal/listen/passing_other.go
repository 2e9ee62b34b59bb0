//go:build !linux

package listen

import "syscall"

// passingHere are the errors of passing that only this system has: none.
var passingHere []syscall.Errno
