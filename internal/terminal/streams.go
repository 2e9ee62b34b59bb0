// Package terminal writes results, files and progress for the user of a command, and ends waits at an interrupt.
package terminal

import "io"

// Streams are the standard streams of a command.
type Streams struct {
	Stdin  io.Reader
	Stdout io.Writer // results
	Stderr io.Writer // logs, progress, messages
	Quiet  bool      // --quiet: no progress
}
