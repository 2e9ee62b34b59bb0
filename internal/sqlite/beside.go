package sqlite

import (
	"fmt"
	"log/slog"
	"os"
	"slices"

	"plantstore/internal/safefile"
)

// The suffixes of the files beside a store: those of SQLite, and all.
var (
	sqliteSuffixes = []string{"-wal", "-shm", "-journal"}
	besideSuffixes = append(sqliteSuffixes, markSuffix, serveSuffix, ticketSuffix, moveSuffix)
)

// checkNamed returns an error unless the path, which the user has entered, is a regular file.
func checkNamed(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it", path)
	}
	return safefile.CheckRegular(path)
}

// checkBeside returns an error if a file with one of these suffixes beside a store is not a
// regular file. In a directory with other writers, a link would redirect writes to another
// file, and a FIFO would block for ever.
func checkBeside(path string, suffixes []string) error {
	for _, suffix := range suffixes {
		if err := safefile.CheckRegular(path + suffix); err != nil {
			return fmt.Errorf("%w: remove it", err)
		}
	}
	return nil
}

// warnModes logs a warning for each file of a store that other users can read or write.
// SQLite creates a WAL with the mode of the store's file.
func warnModes(path string, log *slog.Logger) {
	for _, suffix := range slices.Concat([]string{""}, besideSuffixes) {
		info, err := os.Stat(path + suffix)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			log.Warn("other users have access to a file of the store: run chmod 600",
				"file", path+suffix, "mode", info.Mode().Perm().String())
		}
	}
}
