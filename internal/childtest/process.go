// Package childtest builds and starts the servers of tests.
package childtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Output is the output of processes. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the bytes so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Process is a running server.
type Process struct {
	command *exec.Cmd
	end     syscall.Signal
	exited  chan struct{}
}

// Start starts a server, and waits until it is ready. The signal ends the server at once; the server receives it at the
// end of the test program, too.
func Start(
	ctx context.Context, command *exec.Cmd, end syscall.Signal, output *Output, ready func() bool,
) (*Process, error) {
	command.Stdout, command.Stderr = output, output
	endWithTest(command, end)
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &Process{command, end, make(chan struct{})}
	go func() { // ends with the process; End waits for it
		_ = command.Wait()
		close(p.exited)
	}()
	for !ready() {
		select {
		case <-p.exited:
			return nil, fmt.Errorf("%s has exited: %s", filepath.Base(command.Path), output)
		case <-ctx.Done():
			p.End()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return p, nil
}

// End ends the server, and returns when it has ended. A nil Process has not started.
func (p *Process) End() {
	if p == nil {
		return
	}
	_ = p.command.Process.Signal(p.end) // it may have exited
	<-p.exited
}

// building lets one build use the results of the last one: builds at the same time would compile the same packages.
var building sync.Mutex

// Build builds the tool of tools/NAME.mod, which the build cache usually has, and returns the path of the program.
func Build(ctx context.Context, name string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "plantstore").Output() // also of faults/
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	command := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/"+name+".mod", "-n", name)
	command.Dir = strings.TrimSpace(string(root))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	building.Lock()
	defer building.Unlock()
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// FreeAddresses returns addresses of n free ports of a random host on loopback. No other program has the same host, so
// the ports stay free until a server listens, and while it is killed. Only Linux has more than one host.
func FreeAddresses(ctx context.Context, n int) (host net.IP, addresses []string, err error) {
	octet := func() byte { return byte(2 + rand.N(250)) } //nolint:gosec // no secret
	host = net.IPv4(127, 0, 0, 1)
	if runtime.GOOS == "linux" {
		host = net.IPv4(127, octet(), octet(), octet())
	}
	var config net.ListenConfig
	var open []net.Listener // until the other ports are known, so that they differ
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for range n {
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host.String(), "0"))
		if err != nil {
			return nil, nil, err
		}
		open, addresses = append(open, l), append(addresses, l.Addr().String())
	}
	return host, addresses, nil
}
