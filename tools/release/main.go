// Release writes the files that accompany the program: the licences of the software in it, its list of components,
// and the archives of a release.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

const usage = `usage:
  release notices          print the licences of the modules and the embedded files of the program
  release sbom PROGRAM     print the components of a program as CycloneDX in JSON
  release archive DIRECTORY TIME NAME
                           print the files of a directory as tar.gz, with this time (RFC 3339), below a directory NAME
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// run writes the result of a command to w. The working directory is a directory of the module that has the program, or
// of this one.
func run(ctx context.Context, args []string, w io.Writer) error {
	if len(args) == 4 && args[0] == "archive" {
		at, err := time.Parse(time.RFC3339, args[2])
		if err != nil {
			return err
		}
		return archive(w, args[1], at, args[3])
	}
	root, err := rootOf(ctx)
	if err != nil {
		return err
	}
	var out []byte
	switch {
	case len(args) == 1 && args[0] == "notices":
		out, err = notices(ctx, root)
	case len(args) == 2 && args[0] == "sbom":
		out, err = sbom(ctx, root, args[1])
	default:
		return fmt.Errorf("unknown arguments %q\n%s", args, usage)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}
