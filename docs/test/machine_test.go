package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// As root, each page runs on a machine of its own: an overlay over the files of this machine, its own network, process
// numbers and systemd, and a user "reader" with sudo. No file that the page writes remains. Without root, a page that
// needs no machine runs in a user namespace.
//
// The test program starts itself in two further stages, which stageEnv names: "init" builds the machine and becomes
// systemd, "reader" executes the page.
const (
	stageEnv   = "DOCS_TEST_STAGE"
	jobEnv     = "DOCS_TEST_JOB"
	jobInside  = "/opt/docs-test" // the job's directory inside a machine
	readerName = "reader"
	readerHome = "/home/" + readerName
	pageMax    = 20 * time.Minute
	bootMax    = 5 * time.Minute
)

// job is the directory that the stages share.
type job struct{ dir string }

func (j job) page() string     { return filepath.Join(j.dir, "page.md") }
func (j job) testdata() string { return filepath.Join(j.dir, "testdata") }
func (j job) setup() string    { return filepath.Join(j.testdata(), "set-up") }
func (j job) runner() string   { return filepath.Join(j.dir, "runner") }
func (j job) bin() string      { return filepath.Join(j.dir, "bin") }

// needsMachine reports whether a page runs on a machine of its own.
func (j job) needsMachine(steps []step) bool {
	if _, err := os.Stat(j.setup()); err == nil {
		return true
	}
	return slices.ContainsFunc(steps, func(s step) bool {
		return filepath.IsAbs(s.Path) || s.Path == "" && strings.Contains(s.Text, "sudo ")
	})
}

// run runs the page in namespaces of its own and returns the error of the reader.
func (j job) run(t *testing.T) error {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	command := exec.Command(j.runner())
	command.ExtraFiles = []*os.File{write}
	log, err := os.Create(filepath.Join(j.dir, "init.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	stage := "init"
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP,
		Pdeathsig: syscall.SIGKILL,
	}
	if os.Geteuid() == 0 {
		group := newCgroup(t)
		defer group.Close()
		command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, int(group.Fd())
	} else {
		const netAdmin = 12 // CAP_NET_ADMIN, to start the loopback interface
		stage = "reader"
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET
		same := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
		}
		command.SysProcAttr.UidMappings, command.SysProcAttr.GidMappings = same(os.Getuid()), same(os.Getgid())
		command.SysProcAttr.AmbientCaps = []uintptr{netAdmin}
	}
	command.Env = append(os.Environ(), stageEnv+"="+stage, jobEnv+"="+j.dir)
	err = command.Start()
	need(t, !errors.Is(err, fs.ErrPermission), "the right to make namespaces")
	if err != nil {
		t.Fatalf("start the machine: %v", err)
	}
	_ = write.Close() // the stages have it
	defer func() {
		_ = command.Process.Kill() // ends all processes of the namespace
		_ = command.Wait()
	}()
	_ = read.SetReadDeadline(time.Now().Add(pageMax))
	report := make([]byte, 1<<20)
	n := 0
	for err == nil && n < len(report) {
		var got int
		got, err = read.Read(report[n:])
		n += got
	}
	switch text := string(report[:n]); text {
	case "ok":
		return nil
	case "":
		lines, _ := os.ReadFile(log.Name())
		return fmt.Errorf("the machine ended without a report: %w\n%s", err, lines)
	default:
		return errors.New(text)
	}
}

// newCgroup returns a cgroup for the processes of a machine. systemd manages all cgroups below it.
func newCgroup(t *testing.T) *os.File {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if fields[2] != "cgroup2" {
			continue
		}
		dir, err := os.MkdirTemp(fields[1], "docs-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removeCgroup(t, dir) })
		group, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return group
	}
	t.Fatal("no file system cgroup2 is mounted")
	return nil
}

// removeCgroup removes a cgroup and those below it, whose processes have ended.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			removeCgroup(t, filepath.Join(dir, entry.Name()))
		}
	}
	late := time.After(bootMax)
	for { // the kernel removes the ended processes after the test has waited for them
		err := os.Remove(dir)
		if err == nil {
			return
		}
		select {
		case <-late:
			t.Error(err)
			return
		case <-time.After(pollEvery):
		}
	}
}

// stageInit builds the machine, starts the reader in it and becomes systemd.
func stageInit(j job) error {
	root := filepath.Join(j.dir, "machine", "root")
	if err := build(j, root); err != nil {
		return err
	}
	if err := enter(root); err != nil {
		return fmt.Errorf("enter the machine's files: %w", err)
	}
	if err := prepare(); err != nil {
		return err
	}
	report := os.NewFile(3, "report")
	inside := job{jobInside}
	command := exec.Command(inside.runner())
	command.Env = append(os.Environ(), stageEnv+"=reader", jobEnv+"="+jobInside)
	command.ExtraFiles = []*os.File{report}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	syscall.CloseOnExec(3)
	const systemd = "/lib/systemd/systemd"
	return syscall.Exec(systemd, []string{systemd, "--unit=machine.target", "--show-status=no", "--log-target=journal"},
		[]string{"container=docs-test", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
}

// enter makes the directory the root of the file system. It is no chroot, in which systemd could make no user
// namespace.
func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return err
	}
	// systemd passes credentials to a service by a mount from another namespace. It shares mounts itself, except in a
	// container.
	return errors.Join(syscall.Unmount(".", syscall.MNT_DETACH), os.Chdir("/"),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""))
}

// build mounts the machine's file system at root.
func build(j job, root string) error {
	base := filepath.Dir(root)
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	if err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("tmpfs", base, "tmpfs", 0, "mode=755"),
		overlay(base, "/", root),
	); err != nil {
		return fmt.Errorf("mount the machine's files: %w", err)
	}
	for _, dir := range []string{"run", "tmp", "home", "dev", "mnt", "srv"} {
		mode := "mode=755"
		if dir == "tmp" {
			mode = "mode=1777"
		}
		if err := mount("tmpfs", filepath.Join(root, dir), 0, mode); err != nil {
			return err
		}
	}
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		at := filepath.Join(root, "dev", device)
		err := errors.Join(os.WriteFile(at, nil, 0o600), syscall.Mount("/dev/"+device, at, "", syscall.MS_BIND, ""))
		if err != nil {
			return fmt.Errorf("bind /dev/%s: %w", device, err)
		}
	}
	home := filepath.Join(root, readerHome)
	return errors.Join(
		os.Symlink("/proc/self/fd", filepath.Join(root, "dev/fd")),
		os.Symlink("pts/ptmx", filepath.Join(root, "dev/ptmx")),
		mount("tmpfs", filepath.Join(root, "dev/shm"), 0, "mode=1777"),
		mount("devpts", filepath.Join(root, "dev/pts"), 0, "newinstance,ptmxmode=666"),
		mount("proc", filepath.Join(root, "proc"), 0, ""),
		mount("sysfs", filepath.Join(root, "sys"), 0, ""),
		mount("cgroup2", filepath.Join(root, "sys/fs/cgroup"), 0, ""),
		overlay(base, os.Getenv(repositoryEnv), filepath.Join(home, "plantstore")),
		overlay(base, os.Getenv("GOROOT"), filepath.Join(root, os.Getenv("GOROOT"))),
		overlay(base, os.Getenv("GOMODCACHE"), filepath.Join(root, os.Getenv("GOMODCACHE"))),
		overlay(base, os.Getenv("GOCACHE"), filepath.Join(root, os.Getenv("GOCACHE"))),
		bind(j.dir, filepath.Join(root, jobInside)),
	)
}

func mount(kind, at string, flags uintptr, data string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(kind, at, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, at, err)
	}
	return nil
}

func bind(from, at string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	return syscall.Mount(from, at, "", syscall.MS_BIND, "")
}

// overlay mounts a writable view of a directory; the changes are below base, in memory.
func overlay(base, lower, at string) error {
	changes, err := os.MkdirTemp(base, "changes-")
	if err != nil {
		return err
	}
	upper, work := filepath.Join(changes, "upper"), filepath.Join(changes, "work")
	if err := errors.Join(os.Chmod(changes, 0o755), os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	return mount("overlay", at, 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work)
}

// prepare writes the machine's own files, inside it.
func prepare() error {
	var errs error
	for _, pattern := range []string{"/etc/systemd/system/*.wants", "/lib/systemd/system/*.wants", "/etc/sudoers.d/*"} {
		paths, err := filepath.Glob(pattern)
		errs = errors.Join(errs, err)
		for _, path := range paths {
			errs = errors.Join(errs, os.RemoveAll(path))
		}
	}
	const target = "[Unit]\nDescription=The machine of a page\nDefaultDependencies=no\n" +
		"Wants=systemd-journald.service systemd-journald.socket\n"
	for path, text := range map[string]string{
		"/etc/systemd/system/machine.target": target,
		"/etc/machine-id":                    "0123456789abcdef0123456789abcdef\n",
		"/etc/hostname":                      "store\n",
		"/etc/hosts":                         "127.0.0.1 localhost store\n::1 localhost\n",
		"/etc/sudoers.d/reader":              readerName + " ALL=(ALL) NOPASSWD: ALL\n",
	} {
		errs = errors.Join(errs, os.WriteFile(path, []byte(text), 0o644))
	}
	// The users that pages make may exist on this machine.
	const remove = `for name; do
! getent passwd "$name" || userdel "$name"
! getent group "$name" || groupdel "$name"
done`
	for _, args := range [][]string{
		{"sh", "-euc", remove, "sh", readerName, "plantstore", "plants"},
		{"ip", "link", "set", "lo", "up"},
		{"hostname", "store"},
		{"chmod", "711", "/root"}, // the Go caches may be below it
		{"chmod", "440", "/etc/sudoers.d/reader"},
		{"useradd", "--no-create-home", "--home-dir", readerHome, "--shell", "/bin/bash", readerName},
		{"chown", readerName, readerHome, readerHome + "/plantstore"},
		{"sh", "-c", "rm -f " + readerHome + "/plantstore/plantstore*"}, // what make run has left in the repository
		{"find", os.Getenv("GOCACHE"), "-maxdepth", "1", "-exec", "chown", readerName, "{}", "+"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out))
		}
	}
	return errs
}

// stageReader executes the page and reports to descriptor 3.
func stageReader(j job) error {
	syscall.CloseOnExec(3) // the report ends with this process, not with a program that runs on
	text, err := os.ReadFile(j.page())
	if err != nil {
		return err
	}
	steps, err := parse(string(text))
	if err != nil {
		return err
	}
	r := &reader{dir: filepath.Join(j.dir, "terminals"), env: []string{
		"LANG=C.UTF-8", "TERM=dumb", "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local", "GOPROXY=off",
		"GOCACHE=" + os.Getenv("GOCACHE"), "GOMODCACHE=" + os.Getenv("GOMODCACHE"),
	}}
	path := "/usr/local/bin:/usr/bin:/bin:" + filepath.Join(os.Getenv("GOROOT"), "bin")
	if os.Geteuid() == 0 {
		r.home = readerHome
		if err := errors.Join(boot(), install(j), setUp(j)); err != nil {
			return err
		}
		u, err := user.Lookup(readerName)
		if err != nil {
			return err
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		r.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		r.env = append(r.env, "USER="+readerName, "LOGNAME="+readerName)
	} else {
		r.home = filepath.Join(j.dir, "home")
		path = j.bin() + ":" + path
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			return fmt.Errorf("start the loopback interface: %w: %s", err, out)
		}
		if err := copyRepository(filepath.Join(r.home, "plantstore")); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	r.env = append(r.env, "HOME="+r.home, "PATH="+path)
	err = r.follow(steps)
	if err != nil && r.as != nil {
		lines, _ := exec.Command("journalctl", "--no-pager", "--lines=40", "--output=cat").CombinedOutput()
		err = fmt.Errorf("%w\nthe journal:\n%s", err, lines)
	}
	return err
}

// copyRepository makes a directory with the files of the repository, without what a build or a run has left in it.
func copyRepository(to string) error {
	const script = `mkdir -p "$1"
git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T - | tar -x -C "$1"
ln -s "$PWD/.git" "$1"`
	command := exec.Command("sh", "-euc", script, "sh", to)
	command.Dir = os.Getenv(repositoryEnv)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("copy the repository: %w: %s", err, out)
	}
	return nil
}

// boot waits until systemd has started.
func boot() error {
	for late := time.After(bootMax); ; {
		out, err := exec.Command("systemctl", "is-system-running").CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-late:
			return fmt.Errorf("systemd is not running after %s: %s", bootMax, out)
		case <-time.After(pollEvery):
		}
	}
}

// install copies the program to the path of the pages.
func install(j job) error {
	from, to := filepath.Join(j.bin(), "plantstore"), "/usr/local/bin/plantstore"
	out, err := exec.Command("install", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("install the program: %w: %s", err, out)
	}
	return nil
}

// setUp runs the set-up script of the page, if it has one.
func setUp(j job) error {
	if _, err := os.Stat(j.setup()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	command := exec.Command("bash", "-euo", "pipefail", j.setup())
	command.Dir = j.testdata()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("the page's set-up: %w\n%s", err, out)
	}
	return nil
}
