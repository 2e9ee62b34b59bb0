package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const microName = "micro.txt"

// micro runs the Go benchmarks of Plant Store's packages and stores their output.
func (b *bench) micro(ctx context.Context) error {
	if err := syncDisks(ctx); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "test", "-C", b.root, "-run=^$", "-bench=.", "-benchmem",
		"-count="+strconv.Itoa(b.microCount), "-timeout=1h", "-p=1", "./internal/...")
	command.Env = cleanEnviron()
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	path := filepath.Join(b.out, "performance", microName)
	return os.WriteFile(path, onlyResults(out), 0o644) //nolint:gosec // results are public
}
