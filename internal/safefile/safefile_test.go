package safefile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"plantstore/internal/safefile"
)

// anotherUser is a user ID that no test runs under.
const anotherUser = 12345

func TestPublish(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		create  func(t *testing.T, path, target string)
		replace bool
		exists  bool
	}{
		{"no file", nothing, false, false},
		{"no file, replace", nothing, true, false},
		{"file", func(t *testing.T, path, _ string) { write(t, path, "old") }, false, true},
		{"file, replace", func(t *testing.T, path, _ string) { write(t, path, "old") }, true, false},
		{"link", link, false, true},
		{"link, replace", link, true, false},
		{"dangling link", danglingLink, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, target := filepath.Join(dir, "out"), filepath.Join(dir, "target")
			write(t, target, "keep")
			test.create(t, path, target)
			before, _ := os.ReadFile(path)

			f, err := safefile.Create(path)
			must(t, err)
			_, err = f.WriteString("new")
			must(t, err)
			err = f.Publish(test.replace)
			if errors.Is(err, fs.ErrExist) != test.exists || !test.exists && err != nil {
				t.Errorf("Publish: %v, want fs.ErrExist: %t", err, test.exists)
			}
			must(t, f.Discard())
			want := "new"
			if test.exists {
				want = string(before)
			}
			if got, _ := os.ReadFile(path); string(got) != want {
				t.Errorf("%s has %q, want %q", path, got, want)
			}
			if got, err := os.ReadFile(target); string(got) != "keep" {
				t.Errorf("the target of the link has %q (%v), want it unchanged", got, err)
			}
			if info, err := os.Lstat(path); !test.exists && (err != nil || info.Mode() != 0o600) {
				t.Errorf("%s: %v, %v; want a file that only its owner can read", path, info, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".out.*")); len(left) > 0 {
				t.Errorf("temporary files remain: %q", left)
			}
		})
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := safefile.Create(filepath.Join(dir, "out"))
	must(t, err)
	must(t, f.Discard())
	must(t, f.Discard())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v remains (%v)", left, err)
	}
}

func TestCreateRefusesForeignLinks(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	alias := filepath.Join(dir, "alias")
	must(t, os.Symlink("real", alias))
	f, err := safefile.Create(filepath.Join(alias, "out"))
	must(t, err)
	must(t, f.Publish(false))
	if _, err := os.Stat(filepath.Join(dir, "real", "out")); err != nil {
		t.Error(err)
	}
	if err := os.Lchown(alias, anotherUser, anotherUser); err != nil {
		t.Skipf("only root can change the owner of a link: %v", err)
	}
	_, err = safefile.Create(filepath.Join(alias, "out2"))
	want := alias + " is a symbolic link of another user; use the path of its target"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOpenRegular(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		create func(t *testing.T, path, target string)
		want   string // after the path; "" for success
	}{
		{"no file", nothing, ""},
		{"file", func(t *testing.T, path, _ string) { write(t, path, "") }, ""},
		{"link", link, " is a symbolic link, not a regular file"},
		{"dangling link", danglingLink, " is a symbolic link, not a regular file"},
		{"FIFO", fifo, " is a FIFO, not a regular file"},
		{"directory", directory, " is a directory, not a regular file"},
		{"socket", socket, " is a socket, not a regular file"},
	} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY | os.O_CREATE, os.O_RDWR | os.O_CREATE} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				dir, err := os.MkdirTemp("", "safefile") // short enough for the name of a socket
				must(t, err)
				t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
				path, target := filepath.Join(dir, "name"), filepath.Join(dir, "target")
				write(t, target, "keep")
				test.create(t, path, target)

				f, err := safefile.OpenRegular(path, flag, 0o600)
				if err == nil {
					must(t, f.Close())
				}
				switch {
				case test.want != "":
					if !errors.Is(err, safefile.ErrNotRegular) || err.Error() != path+test.want {
						t.Errorf("got %v, want %s", err, path+test.want)
					}
				case test.name == "no file" && flag == os.O_RDONLY:
					if !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("got %v, want fs.ErrNotExist", err)
					}
				case err != nil:
					t.Error(err)
				}
				if got, err := os.ReadFile(target); string(got) != "keep" {
					t.Errorf("the target of the link has %q (%v), want it unchanged", got, err)
				}
			})
		}
	}
}

func nothing(*testing.T, string, string) {}

func link(t *testing.T, path, target string) {
	t.Helper()
	must(t, os.Symlink(target, path))
}

func danglingLink(t *testing.T, path, _ string) {
	t.Helper()
	link(t, path, path+".none")
}

func fifo(t *testing.T, path, _ string) {
	t.Helper()
	must(t, syscall.Mkfifo(path, 0o600))
}

func directory(t *testing.T, path, _ string) {
	t.Helper()
	must(t, os.Mkdir(path, 0o700))
}

func socket(t *testing.T, path, _ string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteAndReadSmall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"first", "second"} {
		must(t, safefile.Write(path, []byte(content), true))
		if got, err := safefile.ReadSmall(path, 6); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	if err := safefile.Write(path, nil, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want an error that the file exists", err)
	}
	if got, err := safefile.ReadSmall(path, 3); err != nil || string(got) != "seco" {
		t.Errorf("got %q, %v, want one byte more than the limit", got, err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("got %v, %v, want no temporary file", names, err)
	}
}

// TestCreateFault tests the errors of directories in which no file can be created. They do not name a temporary file.
func TestCreateFault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "text")
	for name, want := range map[string]string{
		"none/x.csv": "create a file in " + dir + "/none: no such file or directory; " +
			"create the directory, or use another one",
		"file/x.csv": "create a file in " + dir + "/file: not a directory",
	} {
		if _, err := safefile.Create(filepath.Join(dir, name)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// TestAbandoned shows that Create replaces a temporary file for its path that no process has open, and no other file.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	live, err := safefile.Create(path)
	must(t, err)
	for _, name := range []string{".out.2", ".out.6", ".other.3", ".out.txt", ".out.3.4"} {
		write(t, filepath.Join(dir, name), "left by a killed process")
	}
	must(t, os.Symlink("none", filepath.Join(dir, ".out.3")))
	must(t, os.Mkdir(filepath.Join(dir, ".out.4"), 0o700))
	for range 2 { // .out.2, and .out.5 beside it
		f, err := safefile.Create(path)
		must(t, err)
		defer f.Discard()
		if info, err := f.Stat(); err != nil || info.Size() > 0 {
			t.Errorf("%s is not new: %v, %v", f.Name(), info, err)
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	got := ""
	for _, entry := range entries {
		got += entry.Name() + " "
	}
	if want := ".other.3 .out.1 .out.2 .out.3 .out.3.4 .out.4 .out.5 .out.6 .out.txt "; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	_, err = live.WriteString("new")
	must(t, err)
	must(t, live.Publish(false))
	removed, err := safefile.RemoveAbandoned(dir, func(name string) bool { return name == "other" || name == "out" })
	if err != nil || len(removed) != 2 || removed[0] != "other" || removed[1] != "out" {
		t.Errorf("removed %q, %v", removed, err)
	}
}

// TestManyTemporaryFiles shows that Create ends when another user has created files with all the names.
func TestManyTemporaryFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range 1000 {
		must(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf(".out.%d", n+1)), 0o700))
	}
	want := fmt.Sprintf("create a file in %s: it has 1000 temporary files for out; remove them", dir)
	if _, err := safefile.Create(filepath.Join(dir, "out")); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestOwner shows that a new file of root has the owner of the file that it replaces, unless another user may have
// chosen that owner, and that GiveToOwner gives it to the owner of its directory: an export must not be.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can create files for another user")
	}
	const service = anotherUser + 1
	for _, test := range []struct {
		name           string
		dirOwner       int
		dirMode        fs.FileMode
		replaced, want int // owners; -1: nothing to replace
		given          int // owner after GiveToOwner
	}{
		{"directory of a service", service, 0o700, -1, 0, service},
		{"file of a service", service, 0o700, service, service, service},
		{"file of a service in a directory of root", 0, 0o755, service, service, service},
		{"directory of root", 0, 0o755, -1, 0, 0},
		{"file of root in the directory of a service", service, 0o700, 0, 0, 0},
		{"file of another user in a shared directory", 0, 0o777 | fs.ModeSticky, anotherUser, 0, 0},
		{
			"file of another user in a shared directory of a service", service, 0o777 | fs.ModeSticky, anotherUser,
			service, service,
		},
	} {
		path := filepath.Join(t.TempDir(), "out")
		if test.replaced >= 0 {
			write(t, path, "old")
			must(t, os.Chown(path, test.replaced, test.replaced))
		}
		must(t, os.Chown(filepath.Dir(path), test.dirOwner, test.dirOwner))
		must(t, os.Chmod(filepath.Dir(path), test.dirMode))
		f, err := safefile.Create(path)
		must(t, err)
		wantOwner := func(want int) {
			t.Helper()
			var file syscall.Stat_t
			must(t, syscall.Stat(f.Name(), &file))
			if int(file.Uid) != want || int(file.Gid) != want {
				t.Errorf("%s: the owner is %d and the group %d, want %d", test.name, file.Uid, file.Gid, want)
			}
		}
		wantOwner(test.want)
		safefile.GiveToOwner(f.File, path)
		wantOwner(test.given)
		must(t, f.Discard())
	}
}
