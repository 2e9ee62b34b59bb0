// Plantstore is the program of Plant Store, an HTTP service that stores plants. See README.md, or run it with --help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"plantstore/internal/config"
)

func main() {
	os.Exit(mainExit("/etc/plantstore/plantstore.yaml"))
}

// mainExit runs the program and its deferred calls, which os.Exit would skip, and returns the exit code. settingsFile
// has the settings unless something else names a store.
func mainExit(settingsFile string) int {
	// Nothing calls stop at the end: it would restore the default action, and a second SIGHUP would then end the process
	// with 129.
	ctx, stop := signal.NotifyContext(context.Background(), interrupts()...)
	if err := refuseDumps(); err != nil {
		fmt.Fprintln(os.Stderr, "plantstore: disable core dumps:", err)
		return exitFailure
	}
	context.AfterFunc(ctx, func() {
		// A closed terminal and its shell both send SIGHUP. The channel drops them; signal.Ignore would leave a moment
		// with the default action.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		stop() // a second signal of another kind ends the program at once
	})
	env := config.NewEnvironment(os.Environ())
	env.SettingsFile = settingsFile
	return run(ctx, os.Args[1:], env, os.Stdin, os.Stdout, os.Stderr)
}

// interrupts returns the signals that end a command.
func interrupts() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup(1) ignores it
		list = append(list, syscall.SIGHUP)
	}
	return list
}
