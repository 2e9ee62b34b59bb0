package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// noLast is the value of -last for no last release.
const noLast = "none"

// lastRelease returns the git revision of -last: by default the newest tag before the current commit, "" if there is
// none.
func (b *bench) lastRelease(ctx context.Context) string {
	if b.last == noLast {
		return ""
	}
	return cmp.Or(b.last, firstLine(ctx, "git", "-C", b.root, "describe", "--tags", "--abbrev=0", "HEAD"))
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
		{"git", "-C", b.root, "archive", "--output=" + archive, b.last + "^{commit}"},
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

// lastTargets compares the product with the revision of -last.
func (r *results) lastTargets(t *targets) {
	for _, connections := range []int64{64, 256} {
		ratios := r.compared(setShared, productName, connections).ratios(r.compared(setShared, lastName, connections), rate)
		if len(ratios) > 0 {
			t.addRatio(fmt.Sprintf("rate of plantstore ÷ the earlier version, %d connections", connections), true, 0.95, ratios)
		}
	}
}
