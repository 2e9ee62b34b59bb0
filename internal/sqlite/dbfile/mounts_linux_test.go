package dbfile

import "testing"

func TestFileSystemOf(t *testing.T) {
	t.Parallel()
	const mounts = `22 28 0:21 / /sys rw,nosuid - sysfs sysfs rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
40 28 0:35 / /srv/plants rw,relatime shared:20 master:3 - nfs4 host:/plants rw,vers=4.2
41 28 0:36 / /home/a/remote rw,nosuid - fuse.sshfs a@host: rw
a malformed line
`
	for _, test := range []struct {
		major, minor uint32
		want         string
		refused      bool
	}{
		{8, 1, "ext4", false},
		{0, 35, "nfs4", true},
		{0, 36, "fuse.sshfs", true},
		{9, 9, "", false},
	} {
		got := fileSystemOf(mounts, test.major, test.minor)
		if got != test.want || networkFileSystems[got] != test.refused {
			t.Errorf("%d:%d: got %q, refused %v; want %q, refused %v",
				test.major, test.minor, got, networkFileSystems[got], test.want, test.refused)
		}
	}
	if err := refuseNetwork(t.TempDir()); err != nil {
		t.Errorf("a local directory: %v", err)
	}
}
