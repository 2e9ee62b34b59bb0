package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a server that was started and will be stopped.
type process struct {
	command *exec.Cmd
	out     output // standard output
	faults  output // standard error
	ended   chan struct{}
}

// output is what a process writes, kept up to a size.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

const outputBytesMax = 64 << 10

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() < outputBytesMax {
		o.text.Write(p)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts a program on the given processors; "" stands for all of them.
// Settings of Plant Store in the environment do not reach it.
func start(ctx context.Context, cpus string, as *syscall.Credential, args ...string) (*process, error) {
	if cpus != "" {
		args = append([]string{"taskset", "-c", cpus}, args...)
	}
	p := &process{command: exec.CommandContext(ctx, args[0], args[1:]...), ended: make(chan struct{})}
	p.command.Env = cleanEnviron()
	p.command.Stdout, p.command.Stderr = &p.out, &p.faults
	p.command.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true} // Ctrl-C is ours: the processes are stopped in order
	p.command.WaitDelay = 10 * time.Second
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		defer close(p.ended)
		_ = p.command.Wait() // stop tells by the exit code
	}()
	return p, nil
}

func cleanEnviron() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PLANTSTORE_") && !strings.HasPrefix(v, "PG") {
			kept = append(kept, v)
		}
	}
	return kept
}

// stop asks the process to end, and waits for it.
func (p *process) stop(by syscall.Signal) error {
	_ = p.command.Process.Signal(by)
	select {
	case <-p.ended:
	case <-time.After(60 * time.Second):
		_ = p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within a minute of %s", filepath.Base(p.command.Path), by)
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %s: %s", filepath.Base(p.command.Path), p.command.ProcessState, p.faults.String())
	}
	return nil
}

func (p *process) pid() int { return p.command.Process.Pid }

// ticksPerSecond is the unit of processor times in /proc, the same on every
// Linux that Go runs on.
const ticksPerSecond = 100

// processorTime returns what a process has used so far.
func processorTime(pid int) (time.Duration, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return ticks(fields[11]) + ticks(fields[12]), nil
}

// familyTime returns what a process, its children, and the children that it
// has waited for have used so far.
func familyTime(pid int) (time.Duration, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	sum := ticks(fields[11]) + ticks(fields[12]) + ticks(fields[13]) + ticks(fields[14])
	for _, child := range children(pid) {
		if used, err := processorTime(child); err == nil { // else it has just ended
			sum += used
		}
	}
	return sum, nil
}

func ticks(field string) time.Duration {
	n, _ := strconv.ParseInt(field, 10, 64)
	return time.Duration(n) * time.Second / ticksPerSecond
}

// statFields returns the fields of /proc/PID/stat from the third on; the
// second, the name, may contain anything.
func statFields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return nil, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields))
	}
	return fields, nil
}

func children(pid int) []int {
	parent := strconv.Itoa(pid)
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fields, err := statFields(child); err == nil && fields[1] == parent {
			found = append(found, child)
		}
	}
	return found
}

// kibibytes returns a value that a file under /proc gives in kB, in bytes.
func kibibytes(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// familyMemory returns the memory of a process and its children; what they
// share counts once.
func familyMemory(pid int) int64 {
	var sum int64
	for _, p := range append(children(pid), pid) {
		n, _ := kibibytes(fmt.Sprintf("/proc/%d/smaps_rollup", p), "Pss") // 0 for one that has just ended
		sum += n
	}
	return sum
}

// diskBytes returns what the files that match take on disk, with all below
// them.
func diskBytes(patterns ...string) (int64, error) {
	var sum int64
	for _, pattern := range patterns {
		tops, err := filepath.Glob(pattern)
		if err != nil {
			return 0, err
		}
		for _, top := range tops {
			err := filepath.WalkDir(top, func(_ string, entry fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := entry.Info()
				if err != nil {
					return err
				}
				if stat, ok := info.Sys().(*syscall.Stat_t); ok {
					sum += stat.Blocks * 512
				}
				return nil
			})
			if err != nil {
				return 0, err
			}
		}
	}
	return sum, nil
}
