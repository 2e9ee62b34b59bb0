package listen

import "syscall"

// passingHere are the errors of passing that only Linux has.
var passingHere = []syscall.Errno{syscall.ENONET}
