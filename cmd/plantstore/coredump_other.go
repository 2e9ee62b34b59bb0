//go:build !linux

package main

import "syscall"

// refuseDumps keeps the memory of the process out of core dumps: the secrets of clients, of the database and of TLS are
// in it.
func refuseDumps() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
