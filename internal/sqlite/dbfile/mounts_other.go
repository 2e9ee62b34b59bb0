//go:build !linux

package dbfile

import "context"

// refuseNetwork is implemented for the mount table of Linux only.
func refuseNetwork(string) error { return nil }

func isMountPoint(string) bool { return false }

// LockFile does nothing here, where flock(2) excludes SQLite's own locks.
func LockFile(context.Context, string, int) error { return nil }
