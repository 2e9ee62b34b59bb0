//go:build !linux

package main

import (
	"fmt"
	"syscall"
)

// refuseDumps keeps the memory of the process out of core dumps: the secrets of clients, of the database and of TLS are
// in it.
func refuseDumps() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	return nil
}
