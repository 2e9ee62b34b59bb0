package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	stepMax      = 10 * time.Minute
	interruptMax = 5 * time.Minute
	loggedMax    = 5 * time.Minute
	pollEvery    = 20 * time.Millisecond
)

// loop is the shell of a terminal. It runs the scripts that it receives in one process, so that variables and the
// directory stay. A failed command ends it. Ctrl-C ends the program of a script, not the shell. A script that may fail
// sets the variable script_failed.
const loop = `trap : INT
while IFS= read -r script <&3; do
script_failed=0
source "$script" 3<&- 4>&- </dev/null
echo $script_failed >&4
done`

// terminal is a shell of the reader.
type terminal struct {
	shell   *exec.Cmd
	scripts *os.File // to the shell
	done    chan int // 0 or 1 for each script, then the exit code of the shell
	dir     string
	log     string // file with all output
	read    int64  // length of the output that earlier scripts have written
	running bool   // the last script has not ended yet
	last    step
}

// open starts the shell of a terminal.
func open(name, dir, home string, env []string, as *syscall.Credential) (*terminal, error) {
	t := &terminal{dir: dir, log: filepath.Join(dir, "terminal-"+name), done: make(chan int, 1)}
	log, err := os.Create(t.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	read, scripts, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	codes, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	t.scripts = scripts
	t.shell = exec.Command("bash", "-euo", "pipefail", "-c", loop)
	t.shell.Dir, t.shell.Env = home, env
	t.shell.Stdout, t.shell.Stderr = log, log
	t.shell.ExtraFiles = []*os.File{read, write}
	t.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	if err := t.shell.Start(); err != nil {
		return nil, err
	}
	go t.wait(codes)
	return t, nil
}

// wait sends 0 or 1 for each script, and at last the exit code of the shell. It ends with the shell.
func (t *terminal) wait(codes *os.File) {
	defer codes.Close()
	one := make([]byte, 2)
	for {
		if _, err := io.ReadFull(codes, one); err != nil {
			break
		}
		t.done <- int(one[0] - '0')
	}
	var exit *exec.ExitError
	switch err := t.shell.Wait(); {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		t.done <- exit.ExitCode()
	default:
		t.done <- -1 // it was killed
	}
	close(t.done)
}

// output is the output of the last script so far.
func (t *terminal) output() string {
	text, err := os.ReadFile(t.log)
	if err != nil {
		return err.Error()
	}
	return string(text[min(t.read, int64(len(text))):])
}

// execute runs a script. In the first terminal it waits for the end of the script; in another one it returns when the
// output that the page shows has appeared, and the script may still run.
func (t *terminal) execute(s step) error {
	if t.running {
		if err := t.interrupt(); err != nil {
			return err
		}
	}
	switch {
	case strings.Contains(s.Text, "journalctl"):
		return t.untilLogged(s)
	case s.Exit != 0: // in a shell of its own, so that the terminal survives the failure
		const check = "set +e\n(set -e\n%s\n)\ncode=$?\nset -e\n" +
			"[ $code = %d ] || { echo \"exit code $code, want %[2]d\"; exit 99; }\n"
		return t.run(s, fmt.Sprintf(check, s.Text, s.Exit))
	default:
		return t.run(s, s.Text)
	}
}

// untilLogged repeats a script that reads the journal until it succeeds and its output is that of the page: servers
// write their log lines after the response, and the journal stores them later.
func (t *terminal) untilLogged(s step) error {
	const once = "set +e\n(set -e\n%s\n)\n[ $? = %d ] || script_failed=1\nset -e\n"
	for late := time.After(loggedMax); ; {
		err := t.run(s, fmt.Sprintf(once, s.Text, s.Exit))
		if err == nil || t.running {
			return err
		}
		select {
		case <-late:
			return fmt.Errorf("after %s: %w", loggedMax, err)
		case <-time.After(pollEvery):
		}
	}
}

// run sends a script to the shell and waits for it.
func (t *terminal) run(s step, body string) error {
	text, err := os.ReadFile(t.log)
	if err != nil {
		return err
	}
	t.read, t.last = int64(len(text)), s
	script := filepath.Join(t.dir, "script-"+s.Terminal+"-"+strconv.Itoa(s.Line))
	if err := os.WriteFile(script, []byte(body), 0o644); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(t.scripts, script); err != nil {
		return fmt.Errorf("line %d: the terminal's shell has ended: %w", s.Line, err)
	}
	t.running = true
	return t.await(s)
}

func (t *terminal) await(s step) error {
	late := time.NewTimer(stepMax)
	defer late.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case code := <-t.done:
			t.running = false
			return t.check(s, code)
		case <-tick.C:
			if s.Terminal != "1" && s.Want != nil && matches(s.Want.Text, t.output(), false) {
				return nil
			}
		case <-late.C:
			if s.Want != nil {
				return fmt.Errorf("line %d: not finished after %s: %w", s.Line, stepMax, mismatch(s.Want, t.output()))
			}
			return fmt.Errorf("line %d: not finished after %s\n%s", s.Line, stepMax, t.output())
		}
	}
}

func (t *terminal) check(s step, code int) error {
	got := t.output()
	switch {
	case code != 0:
		return fmt.Errorf("line %d: exit code %d\n%s", s.Line, code, got)
	case s.Want != nil && !matches(s.Want.Text, got, true):
		return mismatch(s.Want, got)
	}
	return nil
}

// interrupt presses Ctrl-C and waits until the program of the last script has ended, which must succeed.
func (t *terminal) interrupt() error {
	if err := syscall.Kill(-t.shell.Process.Pid, syscall.SIGINT); err != nil {
		return err
	}
	select {
	case code := <-t.done:
		t.running = false
		if code != 0 {
			return fmt.Errorf("line %d: exit code %d after Ctrl-C\n%s", t.last.Line, code, t.output())
		}
		return nil
	case <-time.After(interruptMax):
		return fmt.Errorf("line %d: still running %s after Ctrl-C\n%s", t.last.Line, interruptMax, t.output())
	}
}

// stop ends the shell and its programs.
func (t *terminal) stop() {
	_ = syscall.Kill(-t.shell.Process.Pid, syscall.SIGKILL) // it may have ended
	for range t.done {
	}
	_ = t.scripts.Close()
}

// reader executes the steps of a page.
type reader struct {
	dir  string // has the scripts and outputs
	home string
	env  []string
	as   *syscall.Credential // nil: the user of the test

	terminals map[string]*terminal
}

// follow executes every step and returns the first error.
func (r *reader) follow(steps []step) error {
	// On a terminal curl shows no progress meter beside the response.
	if err := r.write(step{Path: ".curlrc", Text: "no-progress-meter\n"}); err != nil {
		return err
	}
	r.terminals = map[string]*terminal{}
	defer func() {
		for _, t := range r.terminals {
			t.stop()
		}
	}()
	for _, s := range steps {
		if s.Path != "" {
			if err := r.write(s); err != nil {
				return fmt.Errorf("line %d: %w", s.Line, err)
			}
			continue
		}
		t := r.terminals[s.Terminal]
		if t == nil {
			var err error
			if t, err = open(s.Terminal, r.dir, r.home, r.env, r.as); err != nil {
				return err
			}
			r.terminals[s.Terminal] = t
		}
		if err := t.execute(s); err != nil {
			return errors.Join(err, r.others(s.Terminal))
		}
	}
	for name, t := range r.terminals {
		if t.running {
			if err := t.interrupt(); err != nil {
				return fmt.Errorf("terminal %s: %w", name, err)
			}
		}
	}
	return nil
}

// others are the outputs of the other terminals, which may explain a failure.
func (r *reader) others(than string) (errs error) {
	for name, t := range r.terminals {
		if name != than {
			errs = errors.Join(errs, fmt.Errorf("terminal %s:\n%s", name, t.output()))
		}
	}
	return errs
}

// write writes a file of the page: below the home directory if the path is relative, else as root.
func (r *reader) write(s step) error {
	path, owned := s.Path, filepath.IsAbs(s.Path)
	if !owned {
		path = filepath.Join(r.home, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if bytes.HasPrefix([]byte(s.Text), []byte("#!")) {
		mode = 0o755
	}
	if err := os.WriteFile(path, []byte(strings.TrimPrefix(s.Text, "\n")), mode); err != nil {
		return err
	}
	if owned || r.as == nil {
		return nil
	}
	return os.Chown(path, int(r.as.Uid), int(r.as.Gid))
}
