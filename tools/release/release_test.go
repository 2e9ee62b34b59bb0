package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// THIRD_PARTY_NOTICES has the licences of the modules and the embedded files that the program links.
func TestNoticesAreCurrent(t *testing.T) {
	t.Parallel()
	want, err := notices(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, noticesFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run make notices", noticesFile)
	}
}

func TestLicencesOf(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	own := read("LICENSE")
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"own", own, []string{"MIT"}},
		{"own in a comment", strings.ReplaceAll(own, "\n", "\n # "), []string{"MIT"}},
		{"own without its condition", strings.Replace(own, "shall be included", "may be included", 1), nil},
		{"own with another licence", own + "\nGNU General Public License version 3\n", nil},
		{"no licence", "All rights reserved.\n", nil},
		{"empty", "", nil},
		{"BSD with two clauses", "Copyright X. " + redistribution, []string{"BSD-2-Clause"}},
		{"BSD with three clauses", redistribution + " " + endorsement, []string{"BSD-3-Clause"}},
		{"two", own + strings.ToUpper(redistribution), []string{"BSD-2-Clause", "MIT"}},
		{"copyleft of files", "Mozilla Public License Version 2.0", nil},
	} {
		if got := licencesOf(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A component without an allowed licence is an error.
func TestIdentify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		files      []licenceText
	}{
		{"no file", "x v1 has no licence", nil},
		{"a notice alone", "x v1 has no licence", []licenceText{{"NOTICE", "made by X"}}},
		{"another licence", "LICENSE has no licence of the allow list", []licenceText{{"LICENSE", "pay me"}}},
		{"a large text", "review it", []licenceText{{"LICENSE", strings.Repeat(redistribution, 10000)}}},
	} {
		c := component{name: "x", version: "v1", files: tt.files}
		if err := c.identify(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// Embedded files of other projects need a row in the tables of review.go.
func TestEmbeddedFilesAreReviewed(t *testing.T) {
	t.Parallel()
	packages, err := linked(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := embeddedComponents(packages); err != nil {
		t.Error(err)
	}
	unknown := slices.Clone(packages)
	for i, p := range unknown {
		if p.ImportPath == "github.com/spf13/pflag" {
			unknown[i].EmbedFiles = []string{"font.woff2"}
		}
	}
	if _, err := embeddedComponents(unknown); err == nil || !strings.Contains(err.Error(), "font.woff2") {
		t.Errorf("with a new embedded file: got %v, want an error that names it", err)
	}
	changed := embeddedFiles[0]
	changed.sha256 = strings.Repeat("0", 64)
	if _, err := changed.load(packages); err == nil || !strings.Contains(err.Error(), "differs") {
		t.Errorf("with another hash: got %v, want an error", err)
	}
}

// Two clones in different directories build the same files, with empty caches and in different environments.
func TestBuildsAreReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the program from scratch")
	}
	t.Parallel()
	first, second := cloneOf(t, "here"), cloneOf(t, "somewhere else")
	build(t, first)
	build(t, second, "GOCACHE="+t.TempDir(), "TZ=Pacific/Apia", "LC_ALL=C", "USER=other", "GOFLAGS=-p=3")
	for _, name := range []string{"plantstore", "plantstore.cdx.json", noticesFile} {
		a, b := readFile(t, filepath.Join(first, "dist", name)), readFile(t, filepath.Join(second, "dist", name))
		if !bytes.Equal(a, b) {
			t.Errorf("%s: the builds differ: %v and %v", name, sha256Of(a), sha256Of(b))
		}
	}
	checkVersion(t, first)
	checkComponents(t, filepath.Join(first, "dist"))
	if runtime.GOOS == "linux" {
		checkPosition(t, filepath.Join(first, "dist", "plantstore"))
	}
}

// The list of a program for another system, which does not run here, has the same version and commit.
func TestVersionOfAnotherSystem(t *testing.T) {
	t.Parallel()
	var other bomComponent
	at, err := other.setCommit(t.Context(), root, filepath.Join(t.TempDir(), "plantstore"))
	if err != nil {
		t.Fatal(err)
	}
	var own struct {
		Version string
	}
	out := output(t, root, nil, "go", "run", "./cmd/plantstore", "version", "--json")
	if err := json.Unmarshal([]byte(out), &own); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	commit := strings.TrimSpace(output(t, root, nil, "git", "rev-parse", "HEAD"))
	if other.Version != own.Version || at == "" || !slices.Equal(other.Properties, []property{{"commit", commit}}) {
		t.Errorf("got %+v at %q, want the version %q and the commit %s", other, at, own.Version, commit)
	}
}

// checkVersion checks that the program has its version, its commit and the time of that commit.
func checkVersion(t *testing.T, clone string) {
	t.Helper()
	var got struct {
		Version, Commit string
		CommittedAt     time.Time `json:"committed_at"`
		Modified        *bool
	}
	out := output(t, clone, nil, filepath.Join(clone, "dist", "plantstore"), "version", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	commit := strings.TrimSpace(output(t, clone, nil, "git", "rev-parse", "HEAD"))
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(output(t, clone, nil, "git", "show", "-s", "--format=%cI")))
	if err != nil {
		t.Fatal(err)
	}
	if got.Version == "" || got.Commit != commit || !got.CommittedAt.Equal(at) || got.Modified == nil || *got.Modified {
		t.Errorf("version: got %s, want the unmodified commit %s of %s", out, commit, at)
	}
}

// checkComponents checks that the list of components has each module of the program with a licence.
func checkComponents(t *testing.T, dist string) {
	t.Helper()
	var list bom
	if err := json.Unmarshal(readFile(t, filepath.Join(dist, "plantstore.cdx.json")), &list); err != nil {
		t.Fatal(err)
	}
	built := readFile(t, filepath.Join(dist, "plantstore"))
	if got, want := list.Metadata.Component.Hashes, []hash{sha256Of(built)}; !slices.Equal(got, want) {
		t.Errorf("hash of the program: got %v, want %v", got, want)
	}
	if _, err := time.Parse(time.RFC3339, list.Metadata.Timestamp); err != nil {
		t.Errorf("timestamp: %v", err)
	}
	listed := map[string]bool{}
	for _, c := range list.Components {
		if len(c.Licences) != 1 || c.Licences[0].Text == "" || c.Version == "" {
			t.Errorf("%s has version %q and licences %v", c.Name, c.Version, c.Licences)
		}
		listed[c.Name+"@"+c.Version] = true
	}
	info, err := buildinfo.ReadFile(filepath.Join(dist, "plantstore"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !listed[m.Path+"@"+m.Version] {
			t.Errorf("the list has no component %s %s", m.Path, m.Version)
		}
	}
	if len(info.Deps) < 20 || len(list.Components) < len(info.Deps)+2 {
		t.Errorf("%d modules, %d components; want more", len(info.Deps), len(list.Components))
	}
}

// checkPosition checks that the system can load a program at a random address, and that it needs no library.
func checkPosition(t *testing.T, path string) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Type != elf.ET_DYN {
		t.Errorf("type %v, want %v: a position-independent executable", file.Type, elf.ET_DYN)
	}
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("libraries %q, %v; want none", libraries, err)
	}
	if text, err := file.DynValue(elf.DT_TEXTREL); err != nil || len(text) > 0 {
		t.Errorf("relocations in the code: %v, %v; want none", text, err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_LOAD || segment.Type == elf.PT_GNU_STACK {
			if segment.Flags&elf.PF_W != 0 && segment.Flags&elf.PF_X != 0 {
				t.Errorf("segment %v at %#x is writable and executable", segment.Type, segment.Vaddr)
			}
		}
	}
}

func cloneOf(t *testing.T, name string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), name)
	output(t, root, nil, "git", "clone", "--quiet", "--no-hardlinks", ".", clone)
	return clone
}

func build(t *testing.T, clone string, variables ...string) {
	t.Helper()
	output(t, clone, variables, "make", "dist")
}

// output returns the standard output of a command.
func output(t *testing.T, dir string, variables []string, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), variables...), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, &stderr)
	}
	return string(out)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
