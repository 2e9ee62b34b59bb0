// Packages writes a Debian package and an RPM package for each program:
//
//	packages -version 1.0.0 -time 2026-03-03T12:00:00Z -completions DIRECTORY -manual DIRECTORY \
//		-share DIRECTORY -out DIRECTORY PROGRAM…
//
// A PROGRAM is a build for Linux. The packages depend only on the arguments, the files that they name, the repository
// and the modules in go.mod.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "packages: %v\n", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(args []string) error {
	var s source
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	flags.StringVar(&s.version, "version", "", "`version` of the program")
	at := flags.String("time", "", "`time` of the commit, RFC 3339")
	flags.StringVar(&s.root, "root", "../..", "`directory` of the repository")
	flags.StringVar(&s.completions, "completions", "", "`directory` with the completions of the shells")
	flags.StringVar(&s.pages, "manual", "", "`directory` with the manual pages, which tools/manual-pages.sh writes")
	flags.StringVar(&s.share, "share", "", "`directory` that tools/shared-files.sh has written")
	flags.StringVar(&s.homepage, "homepage", "", "`URL` of the project")
	flags.StringVar(&s.maintainer, "maintainer", "Plant Store maintainers <maintainers@plantstore.invalid>",
		"`name` and address of the maintainer of the packages")
	out := flags.String("out", "", "`directory` of the packages")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.version == "" || s.completions == "" || s.pages == "" || s.share == "" || *out == "" || flags.NArg() == 0 {
		return errors.New("-version, -completions, -manual, -share, -out and a PROGRAM are required")
	}
	var err error
	if s.at, err = time.Parse(time.RFC3339, *at); err != nil {
		return fmt.Errorf("-time: %w", err)
	}
	for _, program := range flags.Args() {
		if err := s.write(program, *out); err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
	}
	return nil
}

// write writes both packages of a program into the directory out.
func (s *source) write(program, out string) error {
	work, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, f := range []format{debian(), fedora()} {
		info, err := s.info(f, program, work)
		if err != nil {
			return err
		}
		if err := writePackage(f.packager, info, out); err != nil {
			return err
		}
	}
	return nil
}

func writePackage(packager nfpm.Packager, info *nfpm.Info, out string) error {
	file, err := os.Create(filepath.Join(out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, file), file.Close())
}
