package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// program is the package of the program.
const program = "./cmd/plantstore"

// goName is the component of the Go standard library and runtime.
const goName = "Go"

// platforms are the systems that the notices cover, as GOOS/GOARCH. Some modules are linked for one of them only.
var platforms = []string{
	"linux/amd64", "linux/arm64", "linux/arm", "linux/riscv64", "darwin/amd64", "darwin/arm64",
}

// licenceFile matches the names of files with a licence, a notice or a grant of patents.
var licenceFile = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|patents)([.-].*)?$`)

// component is software of another project in the program: a module, the Go standard library, or embedded files.
type component struct {
	name, version string
	files         []licenceText // sorted by name
	ids           []string      // SPDX identifiers of the licences, sorted
}

// licenceText is the content of a file with a licence.
type licenceText struct {
	name, text string
}

// listed is the part of the output of go list that this program uses.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	EmbedFiles      []string
	Module          *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// rootOf returns the directory of the repository: the parent of the directory tools, in which this program is.
func rootOf(ctx context.Context) (string, error) {
	out, err := goOutput(ctx, "", nil, "env", "GOMOD")
	if err != nil {
		return "", err
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if filepath.Base(root) == "release" {
		root = filepath.Dir(filepath.Dir(root))
	}
	if _, err := os.Stat(filepath.Join(root, program)); err != nil {
		return "", fmt.Errorf("the module in %s is not that of the program: %w", root, err)
	}
	return root, nil
}

// linked returns the packages of the program for all platforms. A package of several platforms occurs several times.
func linked(ctx context.Context, root string) ([]listed, error) {
	var all []listed
	for _, platform := range platforms {
		system, processor, _ := strings.Cut(platform, "/")
		out, err := goOutput(ctx, root, []string{"GOOS=" + system, "GOARCH=" + processor, "CGO_ENABLED=0"},
			"list", "-deps", "-json=ImportPath,Dir,Standard,EmbedFiles,Module", program)
		if err != nil {
			return nil, err
		}
		decoder := json.NewDecoder(bytes.NewReader(out))
		for {
			var p listed
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("parse the output of go list: %w", err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// components returns the software of other projects in the program, sorted by name, with their licences. It fails for a
// module without a licence, for a licence that is not allowed, and for embedded files without a review.
func components(ctx context.Context, root string) ([]component, error) {
	packages, err := linked(ctx, root)
	if err != nil {
		return nil, err
	}
	byName := map[string]*component{}
	var problems []error
	for _, p := range packages {
		if p.Standard || p.Module.Main {
			continue
		}
		c := byName[p.Module.Path]
		if c == nil {
			c = &component{name: p.Module.Path, version: p.Module.Version}
			byName[c.name] = c
		}
		if err := c.addLicences(p); err != nil {
			return nil, err
		}
	}
	extra, err := embeddedComponents(packages)
	problems = append(problems, err)
	standard, err := standardLibrary(ctx)
	problems = append(problems, err)
	for _, c := range append(extra, standard) {
		byName[c.name] = c
	}
	var all []component
	for _, c := range byName {
		problems = append(problems, c.identify())
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.name, b.name) })
	return all, errors.Join(problems...)
}

// addLicences adds the licences that apply to a package: those in its directory and in its parents in the module.
func (c *component) addLicences(p listed) error {
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !licenceFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" || entry.IsDir() {
				continue
			}
			path := filepath.Join(dir, entry.Name())
			name, err := filepath.Rel(p.Module.Dir, path)
			if err != nil {
				return err
			}
			if err := c.add(filepath.ToSlash(name), path); err != nil {
				return err
			}
		}
		if dir == p.Module.Dir {
			return nil
		}
	}
}

// add reads a licence, unless the component has it or it is about software that is not in the program.
func (c *component) add(name, path string) error {
	if notLinked[c.name+"/"+name] || slices.ContainsFunc(c.files, func(t licenceText) bool { return t.name == name }) {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, licenceText{name, plainText(text)})
	slices.SortFunc(c.files, func(a, b licenceText) int { return strings.Compare(a.name, b.name) })
	return nil
}

// plainText returns a text with line feeds and without spaces at the ends of its lines.
func plainText(text []byte) string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\f", "")) {
		lines = append(lines, strings.TrimRight(line, " \t\r\n"))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

func standardLibrary(ctx context.Context) (*component, error) {
	out, err := goOutput(ctx, "", nil, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	c := &component{name: goName, version: ""} // the notices do not change with each version of Go
	for _, name := range []string{"LICENSE", "PATENTS"} {
		if err := c.add(name, filepath.Join(strings.TrimSpace(string(out)), name)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// goOutput returns the standard output of a go command that runs in a directory with more variables.
func goOutput(ctx context.Context, dir string, variables []string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), variables...), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
