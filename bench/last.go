package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// lastRelease returns the git revision of -last: by default the newest tag before the current commit, "" if there is
// none.
func (b *bench) lastRelease(ctx context.Context) string {
	return cmp.Or(b.last, firstLine(ctx, "git", "-C", root, "describe", "--tags", "--abbrev=0", "HEAD"))
}

// buildLast builds the last release from its revision, with the flags of a release.
func (b *bench) buildLast(ctx context.Context) error {
	if b.last == "" {
		return nil
	}
	b.log.Info("building", "revision", b.last)
	dir := filepath.Join(b.work, "last-sources")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	archive := filepath.Join(b.work, "last.tar")
	for _, args := range [][]string{
		{"git", "-C", root, "archive", "--output=" + archive, b.last + "^{commit}"},
		{"tar", "-xf", archive, "-C", dir},
		{"go", "build", "-C", dir, "-trimpath", "-ldflags=-s -w", "-o", b.program(lastName), "./cmd/plantstore"},
	} {
		command := exec.CommandContext(ctx, args[0], args[1:]...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build the last release %s: %s: %w\n%s", b.last, args[0], err, out)
		}
	}
	return nil
}
