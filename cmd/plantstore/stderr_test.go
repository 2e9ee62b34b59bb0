package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pipedServer is a server whose standard error is a pipe that the test reads.
type pipedServer struct {
	*process
	read   *os.File      // the pipe
	log    *bufio.Reader // reads from read
	listen string
	admin  string // the URL
	token  string // for the admin listener
}

func startPipedServer(t *testing.T) *pipedServer {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	p, err := newProcess(t.TempDir(), cleanEnviron(),
		"serve", "--db", "a.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = write
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	write.Close() // the server has a copy
	s := &pipedServer{process: p, read: read, log: bufio.NewReaderSize(read, 1)}
	ready := regexp.MustCompile(readyLine)
	for {
		line, err := s.log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if match := ready.FindStringSubmatch(line); match != nil {
			s.listen, s.admin = match[1], match[3]
			s.token = (&testServer{db: filepath.Join(p.cmd.Dir, "a.db")}).operator(t)
			return s
		}
	}
}

// requestMany sends requests to the admin listener on one connection, and requires a response to each. The server logs
// a long line for each.
func (s *pipedServer) requestMany(t *testing.T, requests int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(waitMax)); err != nil {
		t.Fatal(err)
	}
	go func() { // ends when the requests are sent or the connection is closed
		out := bufio.NewWriter(conn)
		for range requests {
			fmt.Fprintf(out, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n\r\n", strings.Repeat("i", 128))
		}
		_ = out.Flush() // after an error a response is missing
	}()
	in := bufio.NewReader(conn)
	for n := range requests {
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("after %d responses: %v", n, err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("after %d responses: %v, %v", n, response.Status, err)
		}
		response.Body.Close()
	}
}

var droppedMetric = regexp.MustCompile(`(?m)^plantstore_log_lines_dropped_total (\S+)$`)

// droppedCount returns the metric of dropped lines. The admin listener must respond.
func (s *pipedServer) droppedCount(t *testing.T) int {
	t.Helper()
	var text []byte
	for _, path := range []string{"/livez", "/metrics"} {
		var status int
		if status, text = authorized(t, s.admin+path, s.token); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	match := droppedMetric.FindSubmatch(text)
	if match == nil {
		t.Fatal("the metric is missing")
	}
	n, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

var droppedLines = regexp.MustCompile(`msg="log lines dropped: [^"]*" lines=(\d+)`)

// reportedLines returns the number of lines that a log reports as dropped.
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

// stop sends SIGTERM and waits for exit code 0.
func (s *pipedServer) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := s.wait(); err != nil || code != exitOK {
		t.Errorf("the server ended with %d, %v, want 0", code, err)
	}
}

// manyRequests is a number of requests whose log lines fill the pipe and the buffer.
const manyRequests = 15_000

// TestBlockedLogReader runs a server whose log pipe is not read. The server responds, and SIGTERM ends it.
func TestBlockedLogReader(t *testing.T) {
	t.Parallel()
	const requests = 1_000 // fill the pipe
	s := startPipedServer(t)
	s.requestMany(t, requests)
	s.stop(t)
}

// TestSlowLogReader pauses the reader of the log. The log then has each line, or reports it as dropped.
func TestSlowLogReader(t *testing.T) {
	t.Parallel()
	s := startPipedServer(t)
	s.requestMany(t, manyRequests)
	dropped := s.droppedCount(t)
	log, read := newStream(), make(chan struct{})
	go func() { // ends with the server
		defer close(read)
		_, _ = io.Copy(log, s.log) // the test checks the text
	}()
	const admin = 2 // requests of droppedCount
	var written, reported int
	// At its end, the server does not wait for a slow reader, so the test first reads the lines of all requests.
	err := poll("lines of all requests", func() bool {
		text := log.String()
		written, reported = strings.Count(text, " msg=request "), reportedLines(t, text)
		return written+reported >= manyRequests+admin
	})
	if err != nil || reported < dropped || dropped == 0 || written+reported != manyRequests+admin {
		t.Errorf("%v: %d lines of requests, %d reported as dropped, and %d counted; want a sum of %d",
			err, written, reported, dropped, manyRequests+admin)
	}
	s.stop(t)
	<-read
	if !strings.HasSuffix(log.String(), " msg=stopped\n") {
		t.Errorf("the log does not end with the last line: %q", log.String()[max(0, len(log.String())-500):])
	}
}

// TestClosedLogPipe closes the reading end of the log pipe. The server continues.
func TestClosedLogPipe(t *testing.T) {
	t.Parallel()
	s := startPipedServer(t)
	if err := s.read.Close(); err != nil {
		t.Fatal(err)
	}
	s.requestMany(t, 100)
	if err := poll("a dropped line", func() bool { return s.droppedCount(t) > 0 }); err != nil {
		t.Error(err)
	}
	s.stop(t)
}

// fullPipe returns the writing end of a full pipe.
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

// TestLastLineOfBlockedLog starts a server that fails to start and whose log pipe is not read. The server ends.
func TestLastLineOfBlockedLog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := newProcess(t.TempDir(), cleanEnviron(),
		"serve", "--db", "a.db", "--listen", l.Addr().String(), "--admin-listen", "127.0.0.1:0")
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
