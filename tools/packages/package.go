package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// name is the name of the packages, of the user and of the directories.
const name = "plantstore"

//go:embed scripts
var scripts embed.FS

// source has the facts of the packages that do not depend on the program.
type source struct {
	version, maintainer, homepage string
	at                            time.Time // every file's
	root, completions             string    // directories
	pages, share                  string    // directories of tools/manual-pages.sh and tools/shared-files.sh
}

// format is one of the two formats, with the conventions of the distributions that use it.
type format struct {
	packager  nfpm.Packager
	depends   []string
	zsh       string // directory of zsh's completions
	manual    string // kind of the manual pages
	docs      func(s *source) ([]file, error)
	changelog func(s *source) string // for nfpm; nil: docs has it
	complete  func(info *nfpm.Info, script func(name string) string)
}

// file is a file of a package, with its content here or in a file of the repository.
type file struct {
	to, from string
	content  []byte // used if from is empty
	kind     string // for nfpm; empty: a regular file
	mode     os.FileMode
}

func debian() format {
	return format{
		packager: deb.Default,
		// The program needs the loader of the C library. The scripts call systemd-sysusers and systemd-tmpfiles.
		depends: []string{
			"libc6", "systemd | systemd-standalone-sysusers | systemd-sysusers",
			"systemd | systemd-standalone-tmpfiles | systemd-tmpfiles",
		},
		zsh:  "/usr/share/zsh/vendor-completions",
		docs: (*source).debianDocs,
		complete: func(info *nfpm.Info, script func(name string) string) {
			info.Recommends = []string{"ca-certificates"}
			info.Scripts.PostInstall, info.Scripts.PreRemove = script("deb-postinst"), script("deb-prerm")
			info.Scripts.PostRemove = script("deb-postrm")
		},
	}
}

func fedora() format {
	return format{
		packager:  rpm.DefaultRPM,
		depends:   []string{"glibc", "systemd"},
		zsh:       "/usr/share/zsh/site-functions",
		manual:    files.TypeRPMDoc,
		docs:      (*source).fedoraDocs,
		changelog: (*source).fedoraChangelog,
		complete: func(info *nfpm.Info, script func(name string) string) {
			info.RPM.BuildHost = "localhost" // the default is the name of this machine
			info.RPM.Summary = "HTTP service that stores plants"
			info.RPM.Group = "System Environment/Daemons"
			info.License = "MIT" // Debian has the licence in a file
			info.Scripts.PostInstall, info.Scripts.PreRemove = script("rpm-post"), script("rpm-preun")
			info.Scripts.PostRemove = script("rpm-postun")
		},
	}
}

// info returns the package of a program in a format. Its files are in the directory work.
func (s *source) info(f format, program, work string) (*nfpm.Info, error) {
	arch, err := archOf(program)
	if err != nil {
		return nil, err
	}
	info := &nfpm.Info{
		Name: name, Arch: arch, Platform: "linux", Version: s.version, Release: "1", Section: "net", Priority: "optional",
		Maintainer: s.maintainer, Homepage: s.homepage, MTime: s.at, DisableGlobbing: true,
		Description: "HTTP service that stores plants\n" +
			"Plant Store stores plants in one file or in PostgreSQL. Clients create plants\n" +
			"over HTTP with a bearer token; a response means that the plant is on stable\nstorage.",
	}
	info.Depends = f.depends
	all, err := s.files(f, program)
	if err != nil {
		return nil, err
	}
	for i, file := range all {
		if file.from == "" && file.kind != files.TypeDir {
			file.from = filepath.Join(work, fmt.Sprint(i))
			if err := os.WriteFile(file.from, file.content, 0o600); err != nil {
				return nil, err
			}
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: file.from, Destination: file.to, Type: file.kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: file.mode, MTime: s.at},
		})
	}
	var failed error
	write := func(name string, text []byte, err error) string {
		path := filepath.Join(work, name)
		failed = errors.Join(failed, err, os.WriteFile(path, text, 0o600))
		return path
	}
	if f.changelog != nil {
		info.Changelog = write("changelog.yaml", []byte(f.changelog(s)), nil)
	}
	f.complete(info, func(name string) string {
		text, err := scripts.ReadFile("scripts/" + name)
		return write(name, text, err)
	})
	return nfpm.WithDefaults(info), failed
}

// archOf returns the architecture of a program for Linux, as GOARCH.
func archOf(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	build := map[string]string{}
	for _, s := range info.Settings {
		build[s.Key] = s.Value
	}
	if build["GOOS"] != "linux" {
		return "", fmt.Errorf("the program is for %q, not for linux", build["GOOS"])
	}
	return build["GOARCH"], nil
}

// files returns the files of a package.
func (s *source) files(f format, program string) ([]file, error) {
	units, err := s.units()
	if err != nil {
		return nil, err
	}
	manual, err := s.manual(f.manual)
	if err != nil {
		return nil, err
	}
	docs, err := f.docs(s)
	if err != nil {
		return nil, err
	}
	shared, err := s.shared()
	if err != nil {
		return nil, err
	}
	return append(slices.Concat(units, manual, docs, shared),
		file{to: "/usr/bin/" + name, from: program, mode: 0o755},
		file{
			to: "/etc/plantstore/plantstore.yaml", from: filepath.Join(s.root, "deploy", "package", "plantstore.yaml"),
			kind: files.TypeConfigNoReplace, mode: 0o644,
		},
		file{
			to: "/usr/lib/sysusers.d/plantstore.conf", mode: 0o644,
			from: filepath.Join(s.root, "deploy", "package", "sysusers.conf"),
		},
		file{
			to: "/usr/lib/tmpfiles.d/plantstore.conf", mode: 0o644,
			from: filepath.Join(s.root, "deploy", "package", "tmpfiles.conf"),
		},
		file{
			to: "/usr/share/bash-completion/completions/" + name, mode: 0o644,
			from: filepath.Join(s.completions, name+".bash"),
		},
		file{to: f.zsh + "/_" + name, from: filepath.Join(s.completions, "_"+name), mode: 0o644},
		file{
			to: "/usr/share/fish/vendor_completions.d/" + name + ".fish", mode: 0o644,
			from: filepath.Join(s.completions, name+".fish"),
		},
	), nil
}

// units returns the units. The service of a package runs the program of the package: without its path, systemd would
// prefer a program in /usr/local/bin.
func (s *source) units() ([]file, error) {
	paths, err := filepath.Glob(filepath.Join(s.root, "deploy", "systemd", "*"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no units in deploy/systemd: %w", err)
	}
	var all []file
	for _, from := range paths {
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte("\nExecStart="+name+" "), []byte("\nExecStart=/usr/bin/"+name+" "))
		all = append(all, file{to: "/usr/lib/systemd/system/" + filepath.Base(from), content: text, mode: 0o644})
	}
	return all, nil
}

// manual returns the compressed manual pages.
func (s *source) manual(kind string) ([]file, error) {
	paths, err := filepath.Glob(filepath.Join(s.pages, "*"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no manual pages in %s: %w", s.pages, err)
	}
	var all []file
	for _, from := range paths {
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(from)
		to := path.Join("/usr/share/man", "man"+strings.TrimPrefix(filepath.Ext(base), "."), base+".gz")
		all = append(all, file{to: to, content: compressed(text), kind: kind, mode: 0o644})
	}
	return all, nil
}

// shared returns the files that tools/shared-files.sh has written, and their directories. They are no documentation for
// a package manager, which may leave documentation out: the alerts name the runbooks.
func (s *source) shared() (all []file, err error) {
	err = filepath.WalkDir(s.share, func(from string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(s.share, from)
		if err != nil {
			return err
		}
		f := file{to: path.Join("/usr/share", name, filepath.ToSlash(relative)), from: from, mode: 0o644}
		if entry.IsDir() {
			f.kind, f.mode = files.TypeDir, 0o755
		}
		all = append(all, f)
		return nil
	})
	return all, err
}

// compressed returns a text as gzip, without a name and a time.
func compressed(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, _ = w.Write(text)                                    // a buffer has no errors
	_ = w.Close()
	return out.Bytes()
}

// debianDocs returns the files that Debian Policy chapter 12 requires.
func (s *source) debianDocs() ([]file, error) {
	const dir = "/usr/share/doc/" + name + "/"
	licence, err := os.ReadFile(filepath.Join(s.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	notices, err := os.ReadFile(filepath.Join(s.root, "THIRD_PARTY_NOTICES"))
	if err != nil {
		return nil, err
	}
	changes, err := os.ReadFile(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	entry := fmt.Sprintf("%s (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n",
		name, s.packageVersion(), s.maintainer, s.at.UTC().Format(time.RFC1123Z))
	return []file{
		{to: dir + "copyright", content: append(licence, "\nTHIRD_PARTY_NOTICES.gz has the licences of the software in the "+
			"program.\n"...), mode: 0o644},
		{to: dir + "THIRD_PARTY_NOTICES.gz", content: compressed(notices), mode: 0o644},
		{to: dir + "changelog.gz", content: compressed(changes), mode: 0o644},
		{
			to: "/usr/share/lintian/overrides/" + name, from: filepath.Join(s.root, "deploy", "package", "lintian-overrides"),
			mode: 0o644,
		},
		{to: dir + "changelog.Debian.gz", content: compressed([]byte(entry)), mode: 0o644},
	}, nil
}

// packageVersion returns the version of the packages: 1.0.0-dev is older than 1.0.0.
func (s *source) packageVersion() string {
	return strings.Replace(s.version, "-", "~", 1) + "-1"
}

// fedoraChangelog returns the changelog of the header in the form that nfpm reads.
func (s *source) fedoraChangelog() string {
	return fmt.Sprintf("- semver: %q\n  date: %s\n  packager: %q\n  changes: [{note: See CHANGELOG.md.}]\n",
		s.packageVersion(), s.at.UTC().Format(time.RFC3339), s.maintainer)
}

func (s *source) fedoraDocs() ([]file, error) {
	licences, docs := "/usr/share/licenses/"+name, "/usr/share/doc/"+name
	licence := func(base string) file {
		return file{to: licences + "/" + base, from: filepath.Join(s.root, base), kind: files.TypeRPMLicense, mode: 0o644}
	}
	return []file{
		{to: "/etc/plantstore", kind: files.TypeDir, mode: 0o755},
		{to: licences, kind: files.TypeDir, mode: 0o755},
		licence("LICENSE"),
		licence("THIRD_PARTY_NOTICES"),
		{to: docs, kind: files.TypeDir, mode: 0o755},
		{
			to: docs + "/CHANGELOG.md", from: filepath.Join(s.root, "CHANGELOG.md"), kind: files.TypeRPMDoc,
			mode: 0o644,
		},
	}, nil
}
