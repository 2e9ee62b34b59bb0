package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pipedServer is a server whose standard error is a pipe that the test reads when it wants to.
type pipedServer struct {
	*process
	read   *os.File      // the pipe
	log    *bufio.Reader // of read
	listen string
	admin  string // the URL
}

func startPipedServer(t *testing.T) *pipedServer {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	p, err := newProcess(t.TempDir(), cleanEnviron(), "serve", "--db", "a.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = write
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	write.Close() // the server has it now
	s := &pipedServer{process: p, read: read, log: bufio.NewReaderSize(read, 1)}
	ready := regexp.MustCompile(readyLine)
	for {
		line, err := s.log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if match := ready.FindStringSubmatch(line); match != nil {
			s.listen, s.admin = match[1], match[3]
			return s
		}
	}
}

// refusals sends requests for a path that is not served on one connection, and wants all of them answered. The log has a
// long line of each.
func (s *pipedServer) refusals(t *testing.T, requests int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(waitMax)); err != nil {
		t.Fatal(err)
	}
	go func() { // ends when all is sent or the connection is closed
		out := bufio.NewWriter(conn)
		for range requests {
			fmt.Fprintf(out, "GET /%s HTTP/1.1\r\nHost: %s\r\nX-Request-Id: %s\r\n\r\n", strings.Repeat("p", 90), s.listen, strings.Repeat("i", 128))
		}
		_ = out.Flush() // the answers tell
	}()
	in := bufio.NewReader(conn)
	for n := range requests {
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("after %d answers: %v", n, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusNotFound {
			t.Fatalf("after %d answers: %v, %v", n, answer.Status, err)
		}
		answer.Body.Close()
	}
}

var droppedMetric = regexp.MustCompile(`(?m)^plantstore_log_lines_dropped_total (\S+)$`)

// droppedCount returns the metric of lines dropped, and wants the admin listener to answer.
func (s *pipedServer) droppedCount(t *testing.T) int {
	t.Helper()
	c := http.Client{Timeout: waitMax}
	defer c.CloseIdleConnections()
	text := ""
	for _, path := range []string{"/livez", "/metrics"} {
		answer, err := c.Get(s.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, answer.Status, err)
		}
		text = string(body)
	}
	match := droppedMetric.FindStringSubmatch(text)
	if match == nil {
		t.Fatal("the metric is missing")
	}
	n, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

var droppedLines = regexp.MustCompile(`msg="log lines dropped: [^"]*" lines=(\d+)`)

// reportedLines returns how many lines a log reports as dropped.
func reportedLines(t *testing.T, log string) (sum int) {
	t.Helper()
	for _, match := range droppedLines.FindAllStringSubmatch(log, -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// endsWith0 sends SIGTERM and waits for the end.
func (s *pipedServer) endsWith0(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := s.wait(); err != nil || code != exitOK {
		t.Errorf("the server ended with %d, %v, want 0", code, err)
	}
}

// manyRequests is so many that their log lines fill the pipe and the buffer.
const manyRequests = 20_000

// TestLogReaderStalls has a server log to a pipe that is not read: it answers all the same, and SIGTERM ends it.
func TestLogReaderStalls(t *testing.T) {
	t.Parallel()
	s := startPipedServer(t)
	s.refusals(t, manyRequests)
	if s.droppedCount(t) == 0 {
		t.Error("no line was dropped")
	}
	s.endsWith0(t)
}

// TestLogReaderReturns has the reader stall and read on: the log has each line, or reports it as dropped.
func TestLogReaderReturns(t *testing.T) {
	t.Parallel()
	s := startPipedServer(t)
	s.refusals(t, manyRequests)
	dropped := s.droppedCount(t)
	log, read := newStream(), make(chan struct{})
	go func() { // ends with the server
		defer close(read)
		_, _ = io.Copy(log, s.log) // the test looks at what came
	}()
	if _, err := s.await(log, droppedLines.String()); err != nil {
		t.Fatal(err)
	}
	s.endsWith0(t)
	<-read
	const admin = 2 // requests of droppedCount
	written, reported := strings.Count(log.String(), " msg=request "), reportedLines(t, log.String())
	if reported < dropped || dropped == 0 || written+reported != manyRequests+admin {
		t.Errorf("%d lines of requests, %d reported as dropped, and %d counted; want %d together", written, reported, dropped, manyRequests+admin)
	}
	if !strings.HasSuffix(log.String(), " msg=stopped\n") {
		t.Errorf("the log does not end with the last line: %q", log.String()[max(0, len(log.String())-500):])
	}
}

// TestLogReaderEnds has the reader of the log end: the server goes on.
func TestLogReaderEnds(t *testing.T) {
	t.Parallel()
	s := startPipedServer(t)
	if err := s.read.Close(); err != nil {
		t.Fatal(err)
	}
	s.refusals(t, 100)
	if err := poll("a dropped line", func() bool { return s.droppedCount(t) > 0 }); err != nil {
		t.Error(err)
	}
	s.endsWith0(t)
}

// fullPipe returns the end for writing of a pipe that takes no byte more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	for bytes := 64 << 10; bytes > 0; {
		if err := write.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := write.Write(make([]byte, bytes)); err != nil {
			bytes /= 2
		}
	}
	return write
}

// TestLastLineOfStalledLog has a server that cannot start report it on a pipe that is not read: it ends all the same.
func TestLastLineOfStalledLog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := newProcess(t.TempDir(), cleanEnviron(), "serve", "--db", "a.db", "--listen", l.Addr().String(), "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = fullPipe(t)
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if code, err := p.wait(); err != nil || code != exitFailure {
		t.Errorf("the server ended with %d, %v, want 1", code, err)
	}
}

// TestFirstTokenNotRead has standard output not read: the server starts all the same, and says how to make a token.
func TestFirstTokenNotRead(t *testing.T) {
	t.Parallel()
	p, err := newProcess(t.TempDir(), cleanEnviron(), "serve", "--db", "a.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = fullPipe(t)
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	for _, line := range []string{
		`level=WARN msg="could not print the first token: standard output is blocked; create another with plantstore token create"`,
		readyLine,
	} {
		if _, err := p.await(p.stderr, line); err != nil {
			t.Fatal(err)
		}
	}
	s := &testServer{process: p}
	s.stop(t)
}
