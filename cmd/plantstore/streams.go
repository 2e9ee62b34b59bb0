package main

import "io"

// streams are the standard streams of a command.
type streams struct {
	stdin  io.Reader
	stdout io.Writer // results
	stderr io.Writer // logs, progress, messages
	quiet  bool      // --quiet: no progress
}
