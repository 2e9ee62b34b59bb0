// Image writes a container image of the program as an OCI layout, without a container engine:
//
//	image -created TIME -revision COMMIT DIRECTORY PROGRAM…
//
// Each PROGRAM is a static build for Linux; the image has one platform for each. The layout depends only on the
// programs, the flags and the modules in go.mod.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	created := flags.String("created", "1970-01-01T00:00:00Z", "`time` of the commit, RFC 3339")
	revision := flags.String("revision", "", "`commit` of the sources")
	notices := flags.String("notices", "../../THIRD_PARTY_NOTICES", "`file` with the licences of the program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return fmt.Errorf("%d arguments; use image DIRECTORY PROGRAM…", flags.NArg())
	}
	at, err := time.Parse(time.RFC3339, *created)
	if err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	s := source{created: at, revision: *revision, notices: *notices, programs: flags.Args()[1:]}
	return s.write(flags.Arg(0))
}
