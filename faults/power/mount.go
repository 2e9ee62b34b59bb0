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

// shelf is a FUSE file system whose files are disks.
type shelf struct {
	dir   string
	root  *fs.Inode
	disks int // that were ever on it
}

func newShelf(t testing.TB) *shelf {
	t.Helper()
	root := &fs.Inode{}
	s := &shelf{dir: t.TempDir(), root: root}
	server, err := fs.Mount(s.dir, root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, MaxWrite: 1 << 20, Name: "power",
	}})
	if err != nil {
		t.Fatalf("mount FUSE: %v", err)
	}
	t.Cleanup(func() {
		// A loop device may let go of its file a little later than its mount.
		_ = retry(server.Unmount) // what is left goes with the mount namespace
	})
	return s
}

// put makes a disk a file and returns the file's path.
func (s *shelf) put(t testing.TB, d *disk) string {
	t.Helper()
	s.disks++
	name := fmt.Sprintf("disk%d", s.disks)
	inode := s.root.NewPersistentInode(t.Context(), d, fs.StableAttr{Mode: syscall.S_IFREG})
	if !s.root.AddChild(name, inode, false) {
		t.Fatalf("%s is there twice", name)
	}
	t.Cleanup(func() {
		s.root.RmChild(name)
		inode.ForgetPersistent()
	})
	return filepath.Join(s.dir, name)
}

// mount mounts the ext4 on a disk, replays its journal by that, and returns
// where. The caller unmounts it; if it does not, the end of the test does.
//
// Other processes do both: a thread of this one that waited for the disk in
// the kernel when the process is killed could not end, would hold /dev/fuse
// open by that, and so would wait for ever.
func (s *shelf) mount(t testing.TB, d *disk) (dir string, unmount func()) {
	t.Helper()
	loop, device, err := attach(s.put(t, d))
	if err != nil {
		t.Fatalf("attach a loop device: %v", err)
	}
	dir = t.TempDir()
	out, err := exec.CommandContext(t.Context(), "mount", "-i", "-t", "ext4", "-o", "noatime", device, dir).CombinedOutput()
	_ = unix.Close(loop) // the mount holds the device, or nobody, and then it is free again
	if err != nil {
		t.Fatalf("mount ext4: %v: %s", err, out)
	}
	mounted := true
	unmount = func() {
		if !mounted {
			return
		}
		mounted = false
		if out, err := exec.Command("umount", "-i", dir).CombinedOutput(); err != nil { //nolint:noctx // also after the test's end
			t.Errorf("unmount ext4: %v: %s", err, out)
		}
	}
	t.Cleanup(unmount)
	return dir, unmount
}

// attach puts a loop device before a file. The device goes when the last who
// has it open closes it.
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
			_ = unix.Close(loop) // somebody else may have been faster
			return err
		}
		return nil
	})
	return loop, device, err
}

// retry calls f until it does not say that something is busy.
func retry(f func() error) (err error) {
	for range 100 {
		if err = f(); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
	return err
}

// unable says what is missing for these tests, or nothing.
func unable() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err.Error()
		}
		_ = f.Close() // nothing was written
	}
	return ""
}
