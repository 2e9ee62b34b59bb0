package dbfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// networkFileSystems are the types in mountinfo of file systems where the locks and the shared
// memory of WAL mode do not work between machines
// (https://sqlite.org/wal.html, "WAL does not work over a network filesystem").
var networkFileSystems = map[string]bool{
	"9p": true, "afs": true, "beegfs": true, "ceph": true, "cifs": true, "coda": true,
	"fuse.ceph": true, "fuse.ceph-fuse": true, "fuse.davfs2": true, "fuse.gcsfuse": true,
	"fuse.glusterfs": true, "fuse.juicefs": true, "fuse.rclone": true, "fuse.s3fs": true,
	"fuse.sshfs": true, "gfs2": true, "glusterfs": true, "gpfs": true, "lustre": true,
	"ncpfs": true, "nfs": true, "nfs4": true, "ocfs2": true, "smb3": true, "smbfs": true,
	"vboxsf": true,
}

// refuseNetwork returns an error if the directory is on a network file system.
func refuseNetwork(dir string) error {
	var stat syscall.Stat_t
	if err := syscall.Stat(dir, &stat); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // none without /proc, as in some containers
	if kind := fileSystemOf(string(mounts), unix.Major(stat.Dev), unix.Minor(stat.Dev)); networkFileSystems[kind] {
		return fmt.Errorf("%s is on a network file system (%s), where SQLite's locks do not work: "+
			"use a local disk or PostgreSQL", dir, kind)
	}
	return nil
}

// isMountPoint reports whether a file is mounted by itself, as a container can mount one.
func isMountPoint(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &stat) // kernels before 5.8 lack the attribute
	return err == nil && stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// LockFile locks the file of a store, by SQLite's descriptor of it, for the server until that is closed: a server may
// have opened the file under another path before it was renamed. It is for Linux, where flock(2) and SQLite's locks are
// independent; FILE-serve is for all systems.
func LockFile(ctx context.Context, path string, descriptor int) error {
	for started := time.Now(); ; {
		err := syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", path, err)
		case time.Since(started) > serveWaitMax || Pause(ctx, CommandPoll) != nil: // a killed server ends soon
			return fmt.Errorf("another plantstore serves %s under another path: stop it first", path)
		}
	}
}

// fileSystemOf returns the type of the file system on a device, or "" if
// mountinfo (proc_pid_mountinfo(5)) does not list it.
func fileSystemOf(mountinfo string, major, minor uint32) string {
	device := fmt.Sprintf("%d:%d", major, minor)
	for line := range strings.Lines(mountinfo) {
		mount, source, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(mount); len(fields) > 2 && fields[2] == device {
			kind, _, _ := strings.Cut(source, " ")
			return kind
		}
	}
	return ""
}
