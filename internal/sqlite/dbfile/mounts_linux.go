package dbfile

import (
	"fmt"
	"os"
	"strings"
	"syscall"

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
