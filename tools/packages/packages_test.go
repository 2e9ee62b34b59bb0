package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const when = "2026-03-03T12:00:00Z"

// TestMain makes the manual pages that all packages contain.
func TestMain(m *testing.M) {
	var err error
	if pages, err = os.MkdirTemp("", "manual-"); err != nil {
		panic(err)
	}
	code := 1
	if out, err := exec.Command("../manual-pages.sh", pages).CombinedOutput(); err == nil {
		code = m.Run()
	} else {
		fmt.Fprintf(os.Stderr, "tools/manual-pages.sh: %v\n%s", err, out)
	}
	_ = os.RemoveAll(pages)
	os.Exit(code)
}

// pages is the directory with the manual pages.
var pages string

// written are the packages of a small program for a version.
type written struct{ deb, rpm string }

func writeFor(t *testing.T, arch, version string) written {
	t.Helper()
	dir := t.TempDir()
	out, completions := filepath.Join(dir, "out"), filepath.Join(dir, "completions")
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "plantstore")
	err := errors.Join(os.Mkdir(out, 0o755), os.Mkdir(completions, 0o755),
		os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	for _, file := range []string{"plantstore.bash", "_plantstore", "plantstore.fish"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(completions, file), []byte("# "+file+"\n"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildmode=pie", "-ldflags=-s -w -buildid=",
		"-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	share := filepath.Join(dir, "share")
	output(t, "../shared-files.sh", share)
	if err := run([]string{
		"-version", version, "-time", when, "-completions", completions, "-manual", pages, "-share", share, "-out", out,
		"-homepage", "https://plants.example", program,
	}); err != nil {
		t.Fatal(err)
	}
	return written{one(t, filepath.Join(out, "*.deb")), one(t, filepath.Join(out, "*.rpm"))}
}

// one returns the path of the only file that matches a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s: got %q, %v; want one file", pattern, paths, err)
	}
	return paths[0]
}

// need skips the test if err is not nil; under CI=true that is a failure.
func need(t *testing.T, err error) {
	t.Helper()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// output returns the standard output of a program that the test needs.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	_, err := exec.LookPath(name)
	need(t, err)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "TZ=UTC", "LC_ALL=C", "HOME="+t.TempDir()), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, &stderr)
	}
	return string(out)
}

// common are the files of both packages, without the manual pages and the documentation. All are owned by root and have
// the mode 0644.
var common = []string{
	"/etc/plantstore/plantstore.yaml",
	"/usr/bin/plantstore", // 0755
	"/usr/lib/systemd/system/plantstore-admin.socket",
	"/usr/lib/systemd/system/plantstore.service",
	"/usr/lib/systemd/system/plantstore.socket",
	"/usr/lib/sysusers.d/plantstore.conf",
	"/usr/lib/tmpfiles.d/plantstore.conf",
	"/usr/share/bash-completion/completions/plantstore",
	"/usr/share/fish/vendor_completions.d/plantstore.fish",
	"/usr/share/plantstore/docs/README.md",
	"/usr/share/plantstore/grafana/plantstore.json",
	"/usr/share/plantstore/prometheus/plantstore.yml",
}

func TestDebianPackage(t *testing.T) {
	t.Parallel()
	pkg := writeFor(t, "amd64", "1.2.3-dev")
	if got, want := filepath.Base(pkg.deb), "plantstore_1.2.3~dev-1_amd64.deb"; got != want {
		t.Errorf("name: got %s, want %s", got, want)
	}
	for field, want := range map[string]string{
		"Package": "plantstore", "Version": "1.2.3~dev-1", "Architecture": "amd64", "Recommends": "ca-certificates",
		"Depends": "libc6, systemd | systemd-standalone-sysusers | systemd-sysusers, " +
			"systemd | systemd-standalone-tmpfiles | systemd-tmpfiles",
		"Homepage":   "https://plants.example",
		"Maintainer": "Plant Store maintainers <maintainers@plantstore.invalid>",
	} {
		if got := strings.TrimSpace(output(t, "dpkg-deb", "--field", pkg.deb, field)); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
	if got := output(t, "dpkg-deb", "--info", pkg.deb, "conffiles"); got != "/etc/plantstore/plantstore.yaml\n" {
		t.Errorf("conffiles: got %q", got)
	}
	tree := t.TempDir()
	output(t, "dpkg-deb", "--extract", pkg.deb, tree)
	const docs = "/usr/share/doc/plantstore/"
	checkFiles(t, treeFiles(t, tree), docs+"THIRD_PARTY_NOTICES.gz", docs+"changelog.Debian.gz", docs+"changelog.gz",
		docs+"copyright", "/usr/share/lintian/overrides/plantstore", "/usr/share/zsh/vendor-completions/_plantstore")
	unit, err := os.ReadFile(filepath.Join(tree, "usr/lib/systemd/system/plantstore.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart=/usr/bin/plantstore serve ") {
		t.Errorf("the service does not run /usr/bin/plantstore: %v\n%s", err, unit)
	}
	checkRunbooks(t, tree)
}

// checkRunbooks checks that the files that the alerts and the runbooks name are in the tree of a package.
func checkRunbooks(t *testing.T, tree string) {
	t.Helper()
	share := filepath.Join(tree, "usr/share/plantstore")
	rules, err := os.ReadFile(filepath.Join(share, "prometheus/plantstore.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, match := range regexp.MustCompile(`runbook_url: file://(\S+)`).FindAllStringSubmatch(string(rules), -1) {
		named = append(named, filepath.Join(tree, match[1]))
	}
	pages, err := filepath.Glob(filepath.Join(share, "docs/runbooks/*.md"))
	if err != nil || len(named) < len(pages) || len(pages) == 0 {
		t.Fatalf("%d alerts, %d runbooks, %v", len(named), len(pages), err)
	}
	link := regexp.MustCompile(`\]\(([^:)#]+)(#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			named = append(named, filepath.Join(filepath.Dir(page), match[1]))
		}
	}
	for _, path := range named {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// installScript installs a package into a copy of this machine without systemd, prints the state of the directory of
// the store, and purges the package: sh -c SCRIPT sh DIRECTORY PACKAGE PROC. PROC is proc if the copy has /proc.
const installScript = `set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
mount -t tmpfs tmpfs "$1/root/run"
mount --bind /dev "$1/root/dev"
[ "$3" != proc ] || mount -t proc proc "$1/root/proc"
cp "$2" "$1/root/run/plantstore.deb"
exec chroot "$1/root" sh -euc '
	rm -rf /var/lib/plantstore
	dpkg --force-depends --no-triggers --install /run/plantstore.deb >&2
	stat --format "%A %U:%G" /var/lib/plantstore
	dpkg --no-triggers --purge plantstore >&2
	[ -e /var/lib/plantstore ] || echo removed'`

// An installation in a chroot, in which no systemd runs, makes the user and the directory of the store. A purge removes
// the empty directory.
func TestInstallationInChroot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		need(t, errors.New("only root can install a package"))
	}
	pkg := writeFor(t, runtime.GOARCH, "1.2.3")
	for _, proc := range []string{"proc", "no-proc"} {
		t.Run(proc, func(t *testing.T) {
			t.Parallel()
			got := output(t, "unshare", "--mount", "sh", "-c", installScript, "sh", t.TempDir(), pkg.deb, proc)
			if want := "drwx------ plantstore:plantstore\nremoved\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// lintian knows the policy of Debian.
func TestLintian(t *testing.T) {
	t.Parallel()
	pkg := writeFor(t, "amd64", "1.2.3")
	if out := output(t, "lintian", "--allow-root", "--fail-on=error,warning", pkg.deb); out != "" {
		t.Error(out)
	}
}

// rpmlint knows the policy of Fedora. The payload has absolute names, which cpio would write over the files of this
// machine.
func TestRpmlint(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("rpmlint")
	need(t, err)
	cpio, err := exec.LookPath("cpio")
	need(t, err)
	pkg, bin := writeFor(t, "amd64", "1.2.3-dev"), t.TempDir()
	script := "#!/bin/sh\nexec " + cpio + " --no-absolute-filenames \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "cpio"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	out := output(t, "env", "PATH="+bin+":"+os.Getenv("PATH"), "rpmlint", "--config", "../../deploy/package/rpmlint.toml",
		pkg.rpm)
	if !strings.Contains(out, " 0 errors, 0 warnings") {
		t.Error(out)
	}
}

// treeFiles returns the files of a directory as "PATH MODE".
func treeFiles(t *testing.T, tree string) (lines []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(tree), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			lines = append(lines, "/"+path+" "+info.Mode().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// checkFiles checks that a package has the common files, the manual pages, the documentation, these files and no other.
func checkFiles(t *testing.T, got []string, more ...string) {
	t.Helper()
	var want []string
	for _, path := range append(more, common...) {
		mode := " -rw-r--r--"
		if path == "/usr/bin/plantstore" {
			mode = " -rwxr-xr-x"
		}
		want = append(want, path+mode)
	}
	manual, err := filepath.Glob(filepath.Join(pages, "*"))
	if err != nil || len(manual) < 10 {
		t.Fatalf("%d manual pages, %v; want more", len(manual), err)
	}
	for _, page := range manual {
		section := strings.TrimPrefix(filepath.Ext(page), ".")
		want = append(want, "/usr/share/man/man"+section+"/"+filepath.Base(page)+".gz -rw-r--r--")
	}
	for _, folder := range []string{"explanation", "how-to", "reference", "runbooks", "tutorial"} {
		pages, err := filepath.Glob("../../docs/" + folder + "/*.md")
		if err != nil || len(pages) == 0 {
			t.Fatalf("%d pages in %s, %v; want some", len(pages), folder, err)
		}
		for _, page := range pages {
			want = append(want, "/usr/share/plantstore/docs/"+folder+"/"+filepath.Base(page)+" -rw-r--r--")
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("files:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRPMPackage(t *testing.T) {
	t.Parallel()
	pkg := writeFor(t, "arm64", "1.2.3-dev")
	if got, want := filepath.Base(pkg.rpm), "plantstore-1.2.3~dev-1.aarch64.rpm"; got != want {
		t.Errorf("name: got %s, want %s", got, want)
	}
	query := func(args ...string) string {
		return output(t, "rpm", append([]string{"--query", "--package", pkg.rpm}, args...)...)
	}
	const format = "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{BUILDHOST} %{URL}\n"
	const want = "plantstore 1.2.3~dev 1 aarch64 MIT localhost https://plants.example\n"
	if got := query("--queryformat", format); got != want {
		t.Errorf("header: got %q, want %q", got, want)
	}
	if got := query("--configfiles"); got != "/etc/plantstore/plantstore.yaml\n" {
		t.Errorf("configuration files: got %q", got)
	}
	if got := query("--requires"); got != "glibc\nsystemd\n" {
		t.Errorf("requirements: got %q", got)
	}
	var files, directories []string
	for line := range strings.Lines(query("--queryformat", "[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}\n]")) {
		file, owned := strings.CutSuffix(strings.TrimSpace(line), " root")
		if !owned {
			t.Errorf("%q does not belong to root", line)
		}
		if directory, mode, _ := strings.Cut(file, " "); mode == "drwxr-xr-x" {
			directories = append(directories, directory)
		} else {
			files = append(files, file)
		}
	}
	if !slices.Contains(directories, "/usr/share/plantstore/docs/runbooks") {
		t.Errorf("the package does not own the directory of the runbooks: %q", directories)
	}
	if got := query("--changelog"); !strings.Contains(got, "> - 1.2.3~dev-1\n- See CHANGELOG.md.\n") {
		t.Errorf("changelog: got %q", got)
	}
	checkFiles(t, files, "/usr/share/doc/plantstore/CHANGELOG.md", "/usr/share/licenses/plantstore/LICENSE",
		"/usr/share/licenses/plantstore/THIRD_PARTY_NOTICES", "/usr/share/zsh/site-functions/_plantstore")
	if got := query("--queryformat", "[%{FILENAMES} %{FILEFLAGS:fflags}\n]"); !strings.Contains(got,
		"/etc/plantstore/plantstore.yaml cn\n") { // configuration, noreplace
		t.Errorf("flags of the files:\n%s", got)
	}
	for _, scriptlet := range []string{"postin", "preun", "postun"} {
		script, err := scripts.ReadFile("scripts/rpm-" + strings.TrimSuffix(scriptlet, "in"))
		if got := query("--queryformat", "%{"+strings.ToUpper(scriptlet)+"}"); err != nil || got != string(script) {
			t.Errorf("%s: got %q, want %q, %v", scriptlet, got, script, err)
		}
	}
}

// The packages of a program are the same bytes wherever and whenever they are written.
func TestPackagesAreReproducible(t *testing.T) {
	first := writeFor(t, "amd64", "1.2.3")
	t.Setenv("TZ", "Pacific/Apia")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	second := writeFor(t, "amd64", "1.2.3")
	for _, pair := range [][2]string{{first.deb, second.deb}, {first.rpm, second.rpm}} {
		a, errA := os.ReadFile(pair[0])
		b, errB := os.ReadFile(pair[1])
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s and %s differ (%v)", pair[0], pair[1], err)
		}
	}
}

// The scripts are valid in a POSIX shell.
func TestScripts(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("scripts/*")
	if err != nil || len(found) != 6 {
		t.Fatalf("%q, %v; want 6 scripts", found, err)
	}
	for _, script := range found {
		output(t, "sh", "-n", script)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"nothing", "required", nil},
		{"no time", "-time", []string{
			"-version", "1", "-completions", dir, "-manual", dir, "-share", dir, "-out", dir, other,
		}},
		{"no manual pages", "required", []string{
			"-version", "1", "-completions", dir, "-share", dir, "-out", dir, "-time", when, other,
		}},
		{"no program", "unrecognized file format", []string{
			"-version", "1", "-completions", dir, "-manual", dir, "-share", dir, "-out", dir, "-time", when, other,
		}},
	} {
		if err := run(tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
