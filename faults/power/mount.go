//go:build linux

package power

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// diskFS is a FUSE file system with disks as files.
type diskFS struct {
	dir   string
	root  *fs.Inode
	disks int // number of disks so far
}

func newDiskFS(t testing.TB) *diskFS {
	t.Helper()
	root := &fs.Inode{}
	s := &diskFS{dir: t.TempDir(), root: root}
	server, err := fs.Mount(s.dir, root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, MaxWrite: 1 << 20, Name: "power",
	}})
	if err != nil {
		t.Fatalf("mount FUSE: %v", err)
	}
	t.Cleanup(func() {
		// A loop device may close its file a little later than its mount ends.
		_ = retry(server.Unmount) // the end of the mount namespace removes the rest
	})
	return s
}

// add adds a disk as a file and returns the file's path.
func (s *diskFS) add(t testing.TB, d *disk) string {
	t.Helper()
	s.disks++
	name := fmt.Sprintf("disk%d", s.disks)
	inode := s.root.NewPersistentInode(t.Context(), d, fs.StableAttr{Mode: syscall.S_IFREG})
	if !s.root.AddChild(name, inode, false) {
		t.Fatalf("the disk %s exists already", name)
	}
	t.Cleanup(func() {
		s.root.RmChild(name)
		inode.ForgetPersistent()
	})
	return filepath.Join(s.dir, name)
}

// mount mounts the ext4 of a disk, which replays its journal, and returns the directory. The caller unmounts it, or the
// end of the test does.
//
// Child processes run mount and umount. If this process were killed while one of its threads waits for the disk in the
// kernel, that thread would keep /dev/fuse open and wait forever.
func (s *diskFS) mount(t testing.TB, d *disk) (dir string, unmount func()) {
	t.Helper()
	loop, device, err := attach(s.add(t, d))
	if err != nil {
		t.Fatalf("attach a loop device: %v", err)
	}
	dir = t.TempDir()
	command := exec.CommandContext(t.Context(), "mount", "-i", "-t", "ext4", "-o", "noatime", device, dir)
	out, err := command.CombinedOutput()
	_ = unix.Close(loop) // without a mount this frees the device
	if err != nil {
		t.Fatalf("mount ext4: %v: %s", err, out)
	}
	mounted := true
	unmount = func() {
		if !mounted {
			return
		}
		mounted = false
		command := exec.Command("umount", "-i", dir) //nolint:noctx // runs after the test's context ends
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("unmount ext4: %v: %s", err, out)
		}
	}
	t.Cleanup(unmount)
	return dir, unmount
}

// attach attaches a loop device to a file. The kernel detaches the device when its last descriptor is closed.
func attach(path string) (loop int, device string, err error) {
	file, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, "", fmt.Errorf("open the image: %w", err)
	}
	defer unix.Close(file)
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, "", fmt.Errorf("open the loop control: %w", err)
	}
	defer unix.Close(control)
	err = retry(func() error {
		number, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return err
		}
		device = fmt.Sprintf("/dev/loop%d", number)
		if loop, err = unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		config := unix.LoopConfig{Fd: uint32(file), Size: blockBytes}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		if err := unix.IoctlLoopConfigure(loop, &config); err != nil {
			_ = unix.Close(loop) // another process may have attached it first
			return err
		}
		return nil
	})
	return loop, device, err
}

// retry calls f until it returns another error than EBUSY.
func retry(f func() error) (err error) {
	for range 100 {
		if err = f(); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
	return err
}

// missingDevice names a requirement of these tests that the machine lacks, or returns "".
func missingDevice() string {
	if os.Geteuid() != 0 {
		return "root"
	}
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "access to a device: " + err.Error()
		}
		_ = f.Close() // nothing was written
	}
	return ""
}
