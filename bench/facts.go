package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// describeMachine returns the properties of this machine that affect the measurements.
func (b *bench) describeMachine(ctx context.Context) (*machine, error) {
	m := &machine{
		Cores:      runtime.NumCPU(),
		Kernel:     firstLine(ctx, "uname", "-sr"),
		System:     firstLine(ctx, "sh", "-c", `. /etc/os-release && echo "$PRETTY_NAME"`),
		FileSystem: firstLine(ctx, "findmnt", "-n", "-o", "FSTYPE", "-T", b.work),
		Commit:     firstLine(ctx, "git", "-C", root, "rev-parse", "--short=12", "HEAD"),
		Seconds:    b.duration.Seconds(),
		Versions: map[string]string{
			"Go":      strings.TrimPrefix(runtime.Version(), "go"),
			"wrk":     cleanVersion(firstLine(ctx, "wrk", "-v")),
			"sqlite3": cleanVersion(firstLine(ctx, "sqlite3", "--version")),
			"PocketBase": cleanVersion(firstLine(ctx, "go", "list", "-C", filepath.Join("cmd", "pocketbase"),
				"-m", "github.com/pocketbase/pocketbase")),
			"modernc.org/sqlite of plain": cleanVersion(firstLine(ctx, "go", "list", "-m", "modernc.org/sqlite")),
			"pgx":                         cleanVersion(firstLine(ctx, "go", "list", "-m", "github.com/jackc/pgx/v5")),
		},
	}
	if b.last != "" {
		m.Versions["last release"] = b.last
	}
	if b.cluster != nil {
		m.Versions["PostgreSQL"] = cleanVersion(firstLine(ctx, filepath.Join(b.cluster.bin, "postgres"), "--version"))
	}
	if firstLine(ctx, "git", "-C", root, "status", "--porcelain", "cmd", "internal", "go.mod", "go.sum") != "" {
		m.Commit += "+"
	}
	var err error
	if m.Processor, err = procValue("/proc/cpuinfo", "model name"); err != nil {
		return nil, err
	}
	if m.MemoryBytes, err = kibibytes("/proc/meminfo", "MemTotal"); err != nil {
		return nil, err
	}
	m.FsyncMicros, err = fsyncMicros(filepath.Join(b.work, "fsync"))
	return m, err
}

// firstLine returns the first line that a command prints, or "" if the command fails to start.
func firstLine(ctx context.Context, args ...string) string {
	out, _ := exec.CommandContext(ctx, args[0], args[1:]...).Output() // wrk -v exits with 1
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

var versionText = regexp.MustCompile(`v?(\d+(?:\.\d+)+)`)

func cleanVersion(line string) string {
	all := versionText.FindAllStringSubmatch(line, -1)
	if all == nil {
		return "unknown"
	}
	return all[0][1]
}

// fsyncMicros returns the median time of an append of 4 KiB and an fsync, in microseconds.
func fsyncMicros(path string) (float64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := bytes.Repeat([]byte{1}, 4096)
	var times []float64
	for range 200 {
		started := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("fsync: %w", err)
		}
		times = append(times, float64(time.Since(started).Nanoseconds())/1e3)
	}
	return spreadOf(times).median, nil
}
