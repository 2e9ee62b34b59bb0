package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Need skips the test unless ok; under CI=true it fails the test. The requirement names the missing tool or permission.
func Need(t testing.TB, ok bool, requirement string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		t.Fatalf("this test needs %s", requirement)
	default:
		t.Skipf("this test needs %s", requirement)
	}
}

// Small mounts a file system of that size in memory and returns its directory. It unmounts the file system when the
// test ends.
func Small(t testing.TB, mebibytes int) string {
	t.Helper()
	Need(t, os.Geteuid() == 0, "root, to mount a small file system")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes)); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// Ballast fills the free space of a file system with one file and returns its path.
func Ballast(t testing.TB, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 1; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 16
		}
	}
	return path
}
