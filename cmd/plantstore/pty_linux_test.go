package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"plantstore/internal/terminal/ptytest"

	"github.com/google/go-cmp/cmp"
)

// ptyTerminal is a pseudo-terminal with its output.
type ptyTerminal struct {
	*ptytest.Terminal

	shown *stream
}

func newTerminal(t *testing.T) *ptyTerminal {
	t.Helper()
	shown := newStream()
	term, err := ptytest.New(shown)
	skipWithoutTerminals(t, err)
	t.Cleanup(term.Close)
	return &ptyTerminal{term, shown}
}

// skipWithoutTerminals skips a test on a machine without pseudo-terminals, unless CI is true.
func skipWithoutTerminals(t *testing.T, err error) {
	t.Helper()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// screen closes the terminal and returns its final screen.
func (term *ptyTerminal) screen(t *testing.T) string {
	t.Helper()
	term.Close()
	screen, err := ptytest.Screen(term.shown.String())
	if err != nil {
		t.Error(err)
	}
	return screen
}

// start starts the program on the terminal.
func (term *ptyTerminal) start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return term.run(t, dir, "plantstore", args...)
}

// run starts a command on the terminal.
func (term *ptyTerminal) run(t *testing.T, dir, name string, args ...string) *process {
	t.Helper()
	p := &process{
		cmd: exec.Command(name, args...), stdout: term.shown, stderr: term.shown, ended: make(chan struct{}),
	}
	p.cmd.Dir, p.cmd.Env = dir, cleanEnviron()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = term.TTY, term.TTY, term.TTY
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

// TestFirstTokensOnTerminal starts a server on a terminal. It creates the first tokens, and the next server prints
// where the console is.
func TestFirstTokensOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, patterns := range [][]string{
		{
			`^Token "first" creates plants:\r\n\r\npst_\w{49}\r\n`,
			`^Token "first-admin" reads .*:\r\n\r\npst_\w{49}\r\n`, readyLine,
		},
		{
			`^Console: +http://127.0.0.1:\d+\r\n`, `^A sign-in link: +\S+ console\r\n`,
			`^A new token: +\S+ token create NAME\r\n`, `^API document: +http://127.0.0.1:\d+/docs\r\n`, readyLine,
		},
	} {
		term := newTerminal(t)
		p := term.start(t, dir, "serve", "--db", "a.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		for _, pattern := range patterns {
			if _, err := p.await(p.stdout, pattern); err != nil {
				t.Fatal(err)
			}
		}
		s := &testServer{process: p}
		s.stop(t)
	}
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
			keys, tty, err := ptytest.Open()
			skipWithoutTerminals(t, err)
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
		{
			"import many.jsonl --create --db a.db",
			"many.jsonl: UTF-8, JSON Lines\ncreated 2000, existing 0, conflicting 0, invalid 0\n", "] 0 rows, 0%",
		},
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
	if _, err := term.Keys.WriteString("\x03"); err != nil {
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
			term.Close()
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

const invalidLine = "line 2000: id must be a 64-bit integer; got a string"

var plainLines = regexp.MustCompile(`\A([0-9]+ rows[^\n\r]*\n)*many.jsonl: UTF-8, JSON Lines\n` +
	`([0-9]+ rows[^\n\r]*\n)*` + invalidLine + `[^\n\r]*\n` +
	`([0-9]+ rows[^\n\r]*\n)*plantstore: 1 rows were not stored\n\z`)

// TestProgressBarOnTerminal runs commands of a shell on a terminal.
func TestProgressBarOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFileText(t, dir+"/many.jsonl", strings.Replace(somePlants(3_000), `{"id":2000,`, `{"id":"x",`, 1))
	for name, c := range map[string]struct {
		command string
		want    []string
	}{
		"file": {
			"plantstore import many.jsonl --create --db file.db",
			[]string{"] 0 rows, 0%", "\r\x1b[2Kmany.jsonl: UTF-8, JSON Lines\r\n", invalidLine},
		},
		"standard input": {
			"cat many.jsonl | plantstore import - --format jsonl --create --db input.db",
			[]string{"0 rows", "\r\x1b[2Kstandard input: UTF-8, JSON Lines\r\n", invalidLine},
		},
		"standard output alone": {
			"plantstore import many.jsonl --create --db plain.db 2> plain.txt",
			[]string{"created 2999"},
		},
	} {
		term := newTerminal(t)
		code, err := term.run(t, dir, "sh", "-c", c.command).wait()
		if err != nil || code != exitFailure {
			t.Errorf("%s: got %d, %v, want exit code 1 for the invalid row", name, code, err)
		}
		term.Close()
		for _, want := range append(c.want, "created 2999, existing 0, conflicting 0, invalid 1\r\n") {
			if screen := term.shown.String(); !strings.Contains(screen, want) {
				t.Errorf("%s: the screen has no %q:\n%q", name, want, screen)
			}
		}
	}
	plain, err := os.ReadFile(dir + "/plain.txt")
	if err != nil || !plainLines.Match(plain) {
		t.Errorf("standard error in a file has %q, %v, want a match of %s", plain, err, plainLines)
	}
}
