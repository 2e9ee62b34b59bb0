package main

import (
	"errors"

	"plantstore/internal/backup"
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

func exitCode(err error) int {
	_, usage := errors.AsType[*config.UsageError](err)
	_, fenced := errors.AsType[*backup.FencedError](err)
	switch {
	case usage:
		return exitUsage
	case errors.Is(err, terminal.ErrInterrupted):
		return exitInterrupted
	case errors.Is(err, store.ErrBroken), fenced:
		return exitIO
	default:
		return exitFailure
	}
}
