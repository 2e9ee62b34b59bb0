package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A release has each file, its hash and a signature. It is built for two of the platforms, one of them of 32 bits.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the program for other platforms")
	}
	t.Parallel()
	if _, err := exec.LookPath("minisign"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	clone, keys := cloneOf(t, "clone"), t.TempDir()
	public, secret := filepath.Join(keys, "public"), filepath.Join(keys, "secret")
	const password = "correct horse\n"
	minisign(t, password+password, "-G", "-p", public, "-s", secret)
	cmd := exec.CommandContext(t.Context(), "make", "release")
	cmd.Dir, cmd.Stdin = clone, strings.NewReader(password)
	cmd.Env = append(os.Environ(), "PLATFORMS=linux/armv7 darwin/arm64", "PACKAGES=linux/amd64", "RELEASE_KEY="+secret)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "WARNING") {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	version, err := versionOf(clone)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(clone, "dist", "release")
	checkReleaseFiles(t, dir, version)
	output(t, dir, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	commit := strings.TrimSpace(output(t, clone, nil, "git", "rev-parse", "HEAD"))
	verified := minisign(t, "", "-V", "-p", public, "-m", filepath.Join(dir, "SHA256SUMS"))
	want := "\nTrusted comment: plantstore " + version + ", commit " + commit + "\n"
	if !strings.Contains(verified, want) {
		t.Errorf("minisign: got %q, want %q", verified, want)
	}
	built := checkArchive(t, filepath.Join(dir, "plantstore_"+version+"_linux_armv7.tar.gz"), "plantstore_"+version)
	checkStatic(t, built)
	if !bytes.Contains(built, []byte(commit)) {
		t.Errorf("the program does not have the commit %s", commit)
	}
}

func minisign(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "minisign", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("minisign %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// checkReleaseFiles checks the names of the files in a directory and in its SHA256SUMS.
func checkReleaseFiles(t *testing.T, dir, version string) {
	t.Helper()
	tilde := strings.Replace(version, "-", "~", 1)
	var want []string
	for _, name := range []string{
		"plantstore_" + version + "_linux_armv7.tar.gz", "plantstore_" + version + "_darwin_arm64.tar.gz",
		"plantstore_" + tilde + "-1_amd64.deb", "plantstore-" + tilde + "-1.x86_64.rpm",
	} {
		want = append(want, name, name+".cdx.json")
	}
	slices.Sort(want)
	var hashed []string
	for line := range strings.Lines(string(readFile(t, filepath.Join(dir, "SHA256SUMS")))) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		hashed = append(hashed, name)
	}
	slices.Sort(hashed)
	if !slices.Equal(hashed, want) {
		t.Errorf("SHA256SUMS has %q, want %q", hashed, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(want)+2 { // SHA256SUMS and its signature
		t.Errorf("%d files, want %d", len(entries), len(want)+2)
	}
}

// checkArchive checks the names in an archive and returns its program.
func checkArchive(t *testing.T, path, name string) (built []byte) {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(readFile(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for in := tar.NewReader(compressed); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = true
		if header.Name == name+"/plantstore" {
			if built, err = io.ReadAll(in); err != nil || header.Mode != 0o755 {
				t.Errorf("the program has mode %o, %v", header.Mode, err)
			}
		}
	}
	for _, file := range []string{
		"", "plantstore", "LICENSE", "THIRD_PARTY_NOTICES", "CHANGELOG.md", "man/plantstore.1", "man/plantstore.yaml.5",
		"completions/plantstore.bash", "completions/_plantstore", "completions/plantstore.fish", "completions/plantstore.ps1",
		"share/docs/runbooks/down.md", "share/grafana/plantstore.json", "share/prometheus/plantstore.yml",
		"share/systemd/plantstore-admin.socket", "share/systemd/plantstore.service", "share/systemd/plantstore.socket",
	} {
		if !got[name+"/"+file] {
			t.Errorf("the archive has no %s", file)
		}
	}
	return built
}

// checkStatic checks that a program for Linux needs no loader and no library.
func checkStatic(t *testing.T, built []byte) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(built))
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := file.ImportedLibraries()
	if err != nil || len(libraries) > 0 || file.Section(".interp") != nil || file.Machine != elf.EM_ARM {
		t.Errorf("libraries %q, %v, loader %v, machine %v; want a static program", libraries, err, file.Section(".interp"),
			file.Machine)
	}
}

// A wrong key or platform ends the scripts before they build.
func TestScriptsRefuse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, variable, want string
		args                 []string
	}{
		{"no key", "RELEASE_KEY=/nowhere", "cannot read the key /nowhere", []string{"tools/release.sh"}},
		{"no platform", "X=", `"amiga" is not a platform`, []string{"tools/build.sh", "amiga", "exe", "/nowhere/plantstore"}},
	} {
		cmd := exec.CommandContext(t.Context(), tt.args[0], tt.args[1:]...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), tt.variable)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: got %v: %s, want %q", tt.name, err, out, tt.want)
		}
	}
}

// An archive depends on the names and the contents of the files only.
func TestArchivesAreReproducible(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	var archives [2]bytes.Buffer
	for i := range archives {
		dir := t.TempDir()
		for _, name := range []string{"plantstore", "man/a.1"} {
			path := filepath.Join(dir, name)
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(name), 0o600+os.FileMode(i)<<6),
				os.Chtimes(path, time.Time{}, at.Add(time.Duration(i)*time.Hour)))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := archive(&archives[i], dir, at, "name"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("the archives of the same files differ")
	}
}

// A symbolic link has no place in an archive: it could name a file of the machine that unpacks it.
func TestArchiveRefusesLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	err := archive(io.Discard, dir, time.Time{}, "name")
	if want := fmt.Sprintf("%s is not a regular file", filepath.Join(dir, "link")); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
