package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const terminalColumns = 60

// terminal is a pseudo-terminal.
type terminal struct {
	keys  *os.File // the keyboard and the screen
	tty   *os.File // the terminal of the programs
	shown *stream  // the output to tty, with the echo of the keys
	read  chan struct{}
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, tty := openTerminal(t)
	term := &terminal{keys: keys, tty: tty, shown: newStream(), read: make(chan struct{})}
	go func() { // ends when no program has the terminal open
		defer close(term.read)
		_, _ = io.Copy(term.shown, keys)
	}()
	t.Cleanup(func() {
		_ = tty.Close() // an error: the test has closed it
		<-term.read
		_ = keys.Close()
	})
	return term
}

// openTerminal opens both ends of a pseudo-terminal. The caller closes them.
func openTerminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	size := &unix.Winsize{Row: 24, Col: terminalColumns}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// start starts the program on the terminal.
func (term *terminal) start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{
		cmd: exec.Command("plantstore", args...), stdout: term.shown, stderr: term.shown, ended: make(chan struct{}),
	}
	p.cmd.Dir, p.cmd.Env = dir, cleanEnviron()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = term.tty, term.tty, term.tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState has the outcome
	}()
	t.Cleanup(p.kill)
	return p
}

// screen closes the terminal and returns its final screen, without trailing spaces. It supports line ends, CR and the
// sequence that erases a line.
func (term *terminal) screen(t *testing.T) string {
	t.Helper()
	_ = term.tty.Close()
	<-term.read
	lines, column := [][]rune{nil}, 0
	raw := strings.ReplaceAll(term.shown.String(), "\x1b[2K", "\v")
	for _, r := range raw {
		last := len(lines) - 1
		switch {
		case r == '\r':
			column = 0
		case r == '\n':
			lines = append(lines, []rune(strings.Repeat(" ", column)))
		case r == '\v':
			lines[last] = nil
		case r < ' ' || r == 0x7f:
			t.Errorf("the terminal received %q in %q", r, raw)
		default:
			if column == terminalColumns { // a terminal wraps with the next character
				lines, column = append(lines, nil), 0
				last++
			}
			for len(lines[last]) <= column {
				lines[last] = append(lines[last], ' ')
			}
			lines[last][column] = r
			column++
		}
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(text.String(), "\n") + "\n"
}

// TestFirstTokensOnTerminal starts a server on a terminal. It creates the first tokens without --print-tokens.
func TestFirstTokensOnTerminal(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	p := term.start(t, t.TempDir(), "serve", "--db", "a.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	for _, pattern := range []string{
		`^Token "first" creates plants:\r\n\r\npst_\w{49}\r\n`, `^Token "first-admin" reads .*:\r\n\r\npst_\w{49}\r\n`,
		readyLine,
	} {
		if _, err := p.await(p.stdout, pattern); err != nil {
			t.Fatal(err)
		}
	}
	s := &testServer{process: p}
	s.stop(t)
}

// TestHangup closes the terminal of a server. The server stops as after SIGTERM, although more than one SIGHUP arrives.
// try also removes its data.
func TestHangup(t *testing.T) {
	t.Parallel()
	for command, ready := range map[string]string{
		"serve --db a.db --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0": readyLine,
		"try": "^Data: ",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			temporary := t.TempDir()
			keys, tty := openTerminal(t)
			defer tty.Close()
			p, err := newProcess(t.TempDir(), append(cleanEnviron(), "TMPDIR="+temporary), strings.Fields(command)...)
			if err != nil {
				t.Fatal(err)
			}
			p.cmd.Stdin, p.cmd.SysProcAttr = tty, &syscall.SysProcAttr{Setsid: true, Setctty: true}
			p.cmd.Stderr = p.stdout // one stream for both lines
			if err := p.start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.kill)
			if _, err := p.await(p.stdout, ready); err != nil {
				t.Fatal(err)
			}
			if err := keys.Close(); err != nil { // the kernel sends SIGHUP to the process
				t.Fatal(err)
			}
			ended := func() bool { return p.cmd.Process.Signal(syscall.SIGHUP) != nil } // a shell also sends it to its jobs
			if err := poll("end of the process", ended); err != nil {
				t.Fatal(err)
			}
			code, err := p.wait()
			rest, errRest := os.ReadDir(temporary)
			if err != nil || errRest != nil || code != exitOK || len(rest) > 0 {
				t.Errorf("got %d, %v, %v, %v, want 0 and no files; output:\n%s", code, err, errRest, rest, p.stdout)
			}
		})
	}
}

// TestBarErased tests that end erases the bar at every stage of a command, also after the echo of Ctrl-C.
func TestBarErased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int64
		show func(p *progress)
	}{
		"file, nothing done":           {1000, func(p *progress) { p.rows(0) }},
		"file, half done":              {1000, func(p *progress) { p.read.Store(500); p.rows(10) }},
		"input of unknown length":      {-1, func(p *progress) { p.rows(10) }},
		"parts, nothing done":          {0, func(p *progress) { p.part(0, 1) }},
		"parts, half done":             {0, func(p *progress) { p.part(1, 2) }},
		"parts, done":                  {0, func(p *progress) { p.part(2, 2) }},
		"plants of all":                {0, func(p *progress) { p.plants(1, 2) }},
		"plants of an unknown number":  {-1, func(p *progress) { p.plants(10, -1) }},
		"plants, a number known later": {0, func(p *progress) { p.plants(10, -1); p.shown = time.Time{}; p.plants(20, 30) }},
		"a narrow terminal": {1000, func(p *progress) {
			p.read.Store(1)
			p.started = p.started.Add(-1e6 * time.Hour)
			p.rows(1e15)
		}},
		"with a line": {1000, func(p *progress) {
			p.rows(1)
			p.line("line 3 is invalid")
			p.shown = time.Time{}
			p.rows(1)
		}},
	} {
		for _, interrupted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, interrupted %t", name, interrupted), func(t *testing.T) {
				t.Parallel()
				term := newTerminal(t)
				p := (&program{stderr: term.tty}).newProgress(c.size)
				c.show(p)
				if interrupted {
					fmt.Fprint(term.tty, "^C") // the echo of the terminal
				}
				p.end()
				fmt.Fprintln(term.tty, "done")
				want := "done\n"
				if name == "with a line" {
					want = "line 3 is invalid\ndone\n"
				}
				if got := term.screen(t); got != want {
					t.Errorf("the screen has %q, want %q; it received %q", got, want, term.shown)
				}
				if !strings.Contains(term.shown.String(), "\r") {
					t.Errorf("no bar was shown: %q", term.shown)
				}
			})
		}
	}
}

// TestBars tests that each long command draws a bar, and that the final screen has its result alone.
func TestBars(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFileText(t, dir+"/many.jsonl", somePlants(2000))
	for _, c := range []struct {
		args string
		want string // the final screen
		bar  string // part of the output before
	}{
		{"import many.jsonl --create --db a.db", "created 2000, existing 0, conflicting 0, invalid 0\n", "] 0 rows, 0%"},
		{"verify --db a.db", "a.db is undamaged: 2000 plants, 0 tokens, last commit 2\n", "0 plants"},
		{"export -o b.jsonl --db a.db", "exported 2000 plants\n", "0 plants"},
		{"backup b.db --db a.db", "b.db has 2000 plants, up to commit 3\n", "] 0%"},
		{"restore b.db --db c.db", "c.db has the 2000 plants of TIME\n", "] 0%"},
	} {
		t.Run(c.args, func(t *testing.T) {
			term := newTerminal(t)
			p := term.start(t, dir, strings.Fields(c.args)...)
			if code, err := p.wait(); err != nil || code != exitOK {
				t.Errorf("got %d, %v, want 0", code, err)
			}
			screen := regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z`).ReplaceAllString(term.screen(t), "TIME")
			if screen != c.want || !strings.Contains(term.shown.String(), c.bar) {
				t.Errorf("the screen has %q, want %q; it received %q", screen, c.want, term.shown)
			}
		})
	}
}

// TestBarInterrupted tests that Ctrl-C ends a command that waits for its input, and erases its bar.
func TestBarInterrupted(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	p := term.start(t, t.TempDir(), "import", "-", "--format", "jsonl", "--create", "--db", "a.db")
	if _, err := p.await(term.shown, `\r`); err != nil { // the bar
		t.Fatal(err)
	}
	if _, err := term.keys.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); err != nil || code != exitInterrupted {
		t.Errorf("got %d, %v, want 130", code, err)
	}
	const want = "created 0, existing 0, conflicting 0, invalid 0\n" +
		"interrupted: the counted plants are stored; run the same com\nmand again to continue\nplantstore: interrupted\n"
	if got := term.screen(t); got != want {
		t.Errorf("the screen has %q, want %q; it received %q", got, want, term.shown)
	}
}

// TestExportToTerminal tests that an export escapes control characters for a terminal, and writes the bytes unchanged
// to other outputs.
func TestExportToTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plants := strings.Repeat("é", 40_000) // larger than one write
	writeFileText(t, dir+"/hostile.jsonl",
		`{"id":1,"name":"a\u001b[2J\u009b\u007f\u202e\nb"}`+"\n"+`{"id":2,"name":"`+plants+`"}`+"\n")
	plantstore(t, "import", dir+"/hostile.jsonl", "--create", "--db", dir+"/a.db")
	for format, want := range map[string]string{
		"jsonl": `{"id":1,"name":"a\u001b[2J\u009b\u007f\u202e\nb"}` + "\r\n" + `{"id":2,"name":"` + plants + `"}` + "\r\n",
		"csv":   "id,name,tag\r\r\n1,\"a\\u001b[2J\\u009b\\u007f\\u202e\r\nb\",\r\r\n2," + plants + ",\r\r\n",
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			term := newTerminal(t)
			p := term.start(t, dir, "export", "--format", format, "--db", "a.db", "--quiet") // a slow export shows a bar
			if code, err := p.wait(); err != nil || code != exitOK {
				t.Errorf("got %d, %v, want 0", code, err)
			}
			_ = term.tty.Close()
			<-term.read
			if diff := cmp.Diff(want, term.shown.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			file := plantstore(t, "export", "--format", format, "--db", dir+"/a.db")
			if !strings.Contains(file, "\u009b\x7f\u202e") {
				t.Errorf("a pipe received %.200q", file)
			}
		})
	}
}
