package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// The types below are the part of CycloneDX 1.6 (ECMA-424) that the list of components uses.
type (
	bom struct {
		Format       string         `json:"bomFormat"`
		SpecVersion  string         `json:"specVersion"`
		Version      int            `json:"version"`
		Metadata     metadata       `json:"metadata"`
		Components   []bomComponent `json:"components"`
		Dependencies []dependency   `json:"dependencies"`
	}
	metadata struct {
		Timestamp string       `json:"timestamp,omitempty"`
		Component bomComponent `json:"component"`
	}
	bomComponent struct {
		Ref        string       `json:"bom-ref"`
		Type       string       `json:"type"`
		Name       string       `json:"name"`
		Version    string       `json:"version,omitempty"`
		Hashes     []hash       `json:"hashes,omitempty"`
		Licences   []expression `json:"licenses,omitempty"`
		PackageURL string       `json:"purl,omitempty"`
		Properties []property   `json:"properties,omitempty"`
	}
	expression struct {
		Text string `json:"expression"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// ownLicence is the licence of the project.
const ownLicence = "MIT"

// sbom returns the components of a built program. They depend on the program alone: there is no serial number, and the
// time is that of the commit.
func sbom(ctx context.Context, root, path string) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the build information: %w", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known, err := components(ctx, root)
	if err != nil {
		return nil, err
	}
	main := mainComponent(info, filepath.Base(path), content)
	at, err := main.setCommit(ctx, root, path)
	if err != nil {
		return nil, err
	}
	list := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{at, main}}
	if list.Components, err = bomComponents(info, known); err != nil {
		return nil, err
	}
	all := dependency{Ref: main.Ref}
	for _, c := range list.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	list.Dependencies = []dependency{all}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(list); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// mainComponent returns the component of the program.
func mainComponent(info *buildinfo.BuildInfo, name string, content []byte) bomComponent {
	c := bomComponent{
		Ref: name, Type: "application", Name: name, Version: info.Main.Version,
		Hashes: []hash{sha256Of(content)}, Licences: []expression{{ownLicence}},
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "GOAMD64", "GOARM64", "CGO_ENABLED", "-buildmode":
			c.Properties = append(c.Properties, property{"build:" + s.Key, s.Value})
		}
	}
	return c
}

// setCommit adds the version and the commit that the program reports, and returns the time of the commit in RFC 3339. A
// program for another system does not run here: it has the version and the commit of the checkout.
func (c *bomComponent) setCommit(ctx context.Context, root, path string) (at string, err error) {
	var facts struct {
		Version, Commit string
		CommittedAt     string `json:"committed_at"`
	}
	out, err := exec.CommandContext(ctx, path, "version", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &facts)
	} else if out, err = exec.CommandContext(ctx, filepath.Join(root, "tools", "ldflags.sh")).Output(); err == nil {
		for flag := range strings.FieldsSeq(string(out)) {
			switch name, value, _ := strings.Cut(flag, "="); name {
			case "main.commit":
				facts.Commit = value
			case "main.commitTime":
				facts.CommittedAt = value
			}
		}
		facts.Version, err = versionOf(root)
	}
	if err != nil {
		return "", fmt.Errorf("read the commit: %w", err)
	}
	if facts.Version != "" {
		c.Version = facts.Version
	}
	if facts.Commit != "" {
		c.Properties = append(c.Properties, property{"commit", facts.Commit})
	}
	return facts.CommittedAt, nil
}

var versionConstant = regexp.MustCompile(`(?m)^const version = "([^"]+)"$`)

// versionOf returns the version in the sources of the program.
func versionOf(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, program, "version.go"))
	if err != nil {
		return "", err
	}
	match := versionConstant.FindSubmatch(source)
	if match == nil {
		return "", errors.New("version.go has no constant version")
	}
	return string(match[1]), nil
}

// bomComponents returns the modules of the build information, the Go standard library and the embedded files.
func bomComponents(info *buildinfo.BuildInfo, known []component) ([]bomComponent, error) {
	licences := func(name string) []expression {
		at := slices.IndexFunc(known, func(c component) bool { return c.name == name })
		if at < 0 {
			return nil
		}
		return []expression{{strings.Join(known[at].ids, " AND ")}}
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	all := []bomComponent{{
		Ref: "pkg:golang/std@" + version, Type: "library", Name: "std", Version: version, Licences: licences(goName),
		PackageURL: "pkg:golang/std@" + version,
	}}
	for _, m := range info.Deps {
		c := moduleComponent(m)
		if c.Licences = licences(m.Path); c.Licences == nil {
			return nil, fmt.Errorf("the program has the module %s, which %s does not link for any of %q: add its platform",
				m.Path, program, platforms)
		}
		all = append(all, c)
	}
	for _, e := range embeddedFiles {
		url := "pkg:generic/" + strings.ReplaceAll(strings.ToLower(e.component), " ", "-") + "@" + e.version
		all = append(all, bomComponent{
			Ref: url, Type: "library", Name: e.component, Version: e.version, Licences: licences(e.component),
			Hashes: []hash{{"SHA-256", e.sha256}}, PackageURL: url,
		})
	}
	return all, nil
}

// moduleComponent returns the component of a module. Its hash is the one of go.sum.
func moduleComponent(m *debug.Module) bomComponent {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := bomComponent{Ref: url, Type: "library", Name: m.Path, Version: m.Version, PackageURL: url}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err == nil && len(sum) == sha256.Size {
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
	}
	return c
}

func sha256Of(content []byte) hash {
	sum := sha256.Sum256(content)
	return hash{"SHA-256", hex.EncodeToString(sum[:])}
}
