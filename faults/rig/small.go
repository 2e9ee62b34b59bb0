package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Need skips the test where what it takes is missing; under CI=true that is a
// failure.
func Need(t testing.TB, ok bool, what string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		t.Fatalf("this needs %s", what)
	default:
		t.Skipf("this needs %s", what)
	}
}

// Small mounts a file system of so many MiB in memory, and returns where. It is
// unmounted when the test ends.
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

// Ballast takes all room that is left on a file system, in a file.
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
