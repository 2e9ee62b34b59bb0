package main

import (
	"errors"

	"plantstore/internal/config"
	"plantstore/internal/store"
	"plantstore/internal/terminal"
)

const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitIO          = 74  // EX_IOERR of sysexits.h
	exitInterrupted = 130 // 128 + SIGINT, as in a shell
)

// exitCodes describes the exit codes. docs/reference/exit-codes.md is generated from it.
var exitCodes = []struct {
	code    int
	meaning string
	more    string
}{
	{exitOK, "the command succeeded", ""},
	{exitFailure, "the command failed", "Standard error has the reason. A store that is not writable is an example."},
	{exitUsage, "wrong usage", "An unknown command, flag, setting or value. The command changed nothing."},
	{
		exitIO, "the store is not usable",
		"The disk failed, the store is damaged, or its schema differs from the schema of its version. The log has the " +
			"cause. Every acknowledged plant is on stable storage. Check the disk before you start the server again. " +
			"74 is `EX_IOERR` of `sysexits.h`.",
	},
	{
		exitInterrupted, "the command was interrupted",
		"Ctrl-C, SIGTERM or SIGHUP. The plants that the command counted are stored. `serve` ends with 0 after Ctrl-C " +
			"and SIGTERM, also while it starts. After SIGHUP it reloads its settings, or ends with 0 if its standard input is " +
			"a terminal. `try` ends with 0 after the first of these signals.",
	},
}

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	var usage *config.UsageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, terminal.ErrInterrupted):
		return exitInterrupted
	case errors.Is(err, store.ErrBroken):
		return exitIO
	default:
		return exitFailure
	}
}
