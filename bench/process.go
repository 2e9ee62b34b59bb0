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

// process is a running program. Its owner calls stop.
type process struct {
	command *exec.Cmd
	stdout  output
	stderr  output
	exited  chan struct{} // closed when the process has exited
}

// output keeps the first outputBytesMax bytes that a process writes.
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

// start starts a program on some processors, in the form of taskset; "" is all of them. The program does not inherit
// settings of Plant Store and libpq.
func start(ctx context.Context, cpus string, as *syscall.Credential, args ...string) (*process, error) {
	if cpus != "" {
		args = append([]string{"taskset", "-c", cpus}, args...)
	}
	p := &process{command: exec.CommandContext(ctx, args[0], args[1:]...), exited: make(chan struct{})}
	p.command.Env = cleanEnviron()
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.stderr
	// Ctrl-C must reach only the benchmark, which stops the processes in order.
	p.command.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
	p.command.WaitDelay = 10 * time.Second
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		defer close(p.exited)
		_ = p.command.Wait() // stop reads the exit code
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

// stop sends a signal and waits until the process exits. An exit code other than 0 is an error.
func (p *process) stop(signal syscall.Signal) error {
	_ = p.command.Process.Signal(signal)
	select {
	case <-p.exited:
	case <-time.After(60 * time.Second):
		_ = p.command.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s did not exit within a minute of %s", filepath.Base(p.command.Path), signal)
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s: %s: %s", filepath.Base(p.command.Path), p.command.ProcessState, p.stderr.String())
	}
	return nil
}

func (p *process) pid() int { return p.command.Process.Pid }

// ticksPerSecond is the unit of processor times in /proc, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// processorTime returns the processor time of a process.
func processorTime(pid int) (time.Duration, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return ticks(fields[11]) + ticks(fields[12]), nil
}

// processTreeTime returns the processor time of a process, its children, and the children that it has waited for.
func processTreeTime(pid int) (time.Duration, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	sum := ticks(fields[11]) + ticks(fields[12]) + ticks(fields[13]) + ticks(fields[14])
	for _, child := range children(pid) {
		if used, err := processorTime(child); err == nil { // else the child has exited
			sum += used
		}
	}
	return sum, nil
}

func ticks(field string) time.Duration {
	n, _ := strconv.ParseInt(field, 10, 64)
	return time.Duration(n) * time.Second / ticksPerSecond
}

// statFields returns the fields of /proc/PID/stat from the third on. The second, the name, may contain any character.
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

// kibibytes returns, in bytes, a value that a file under /proc has in kB.
func kibibytes(path, name string) (int64, error) {
	value, err := procValue(path, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64)
	return n << 10, err
}

// procValue returns the first value of a name in a file under /proc.
func procValue(path, name string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", path, name)
}

// processTreeMemory returns the memory of a process and its children, in bytes. Shared memory counts once.
func processTreeMemory(pid int) int64 {
	var sum int64
	for _, p := range append(children(pid), pid) {
		n, err := kibibytes(fmt.Sprintf("/proc/%d/smaps_rollup", p), "Pss")
		if err != nil { // only root reads this file of a server that refuses dumps
			n, _ = kibibytes(fmt.Sprintf("/proc/%d/status", p), "VmRSS") // 0 if the process has exited
		}
		sum += n
	}
	return sum
}

// diskBytes returns the disk space of the files that match and of all files below them.
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
