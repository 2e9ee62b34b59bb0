package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"plantstore/internal/sqlite/sqlite3"
)

var update = flag.Bool("update", false, "write the outputs of cmp into the scripts, and the reference pages")

// excerpts has excerpts of public data; NOTICE.txt there has the sources and licences.
const excerpts = "../../internal/dump/testdata/real"

// dataVariable is the environment variable that names a directory with large public files for the optional tests.
const dataVariable = "PLANTSTORE_TEST_DATA"

// fileVariable names the settings file that the program reads without --config. The file of this machine is not read.
const fileVariable = "TEST_SETTINGS_FILE"

// TestMain runs the program if the test binary has the name plantstore. So the coverage includes its processes.
func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		// Without this the race detector of every process sleeps for a second at its end.
		_ = os.Setenv("GORACE", "atexit_sleep_ms=10")
	}
	testscript.Main(testMain{m}, map[string]func(){"plantstore": func() { os.Exit(mainExit(os.Getenv(fileVariable))) }})
}

// testMain runs the tests after it has reset ignored signals.
type testMain struct{ *testing.M }

// Run implements testscript.TestingM. The processes of the tests start with the default disposition of each signal,
// even under nohup(1) or in the background of a shell, where signals are ignored: children reset a signal that this
// process handles.
func (m testMain) Run() int {
	for _, s := range signals {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // the channel is not read, so this process still ignores it
		}
	}
	code := m.M.Run()
	if thePostgres.server != nil {
		if err := thePostgres.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// TestScript runs the scripts in testdata/script, one file a subject. They use the commands of testscript and
// scriptCommands.
func TestScript(t *testing.T) {
	excerpts, err := filepath.Abs(excerpts)
	if err != nil {
		t.Fatal(err)
	}
	data := os.Getenv(dataVariable)
	if data != "" {
		if data, err = filepath.Abs(data); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		Cmds:               scriptCommands,
		UpdateScripts:      *update,
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			s := &script{
				processes: map[string]*process{}, conns: map[string]net.Conn{},
				locks: map[string]*os.File{}, writers: map[string]*sqlite3.Conn{},
			}
			var err error
			if s.openings, err = watchOpenings(env.WorkDir); err != nil {
				return err
			}
			env.Values[scriptKey{}] = s
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("EXCERPTS", excerpts)
			env.Setenv("DATA", data)
			env.Defer(s.end)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "data":
				return data != "", nil
			case "race":
				return raceDetector(), nil
			}
			return false, fmt.Errorf("unknown condition %s", cond)
		},
	})
}

// raceDetector reports whether the tests run with the race detector, which makes SQLite ten times slower.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

type scriptKey struct{}

// script has the open resources of a script, by their names in the script.
type script struct {
	processes map[string]*process
	conns     map[string]net.Conn
	locks     map[string]*os.File
	writers   map[string]*sqlite3.Conn // each has SQLite's write lock
	openings  *openings                // since the last start of a process
}

func (s *script) end() {
	for _, p := range s.processes {
		p.kill()
	}
	_ = s.openings.close()
	for _, c := range s.conns {
		c.Close()
	}
	for _, f := range s.locks {
		f.Close()
	}
	for _, c := range s.writers {
		c.Close()
	}
}

// scriptCommands are the commands of the scripts, with their arguments in capitals.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exits":     command(2, cmdExits),     // CODE PROGRAM ARG…: require an exit code; 128+n for signal n
	"completed": command(2, cmdCompleted), // REGEXP ARG…: complete until stdout matches; a completion ends after 3 s
	"start":     command(2, cmdStart),     // NAME ARG…: start plantstore in the background, with an open pipe as input
	"serve":     command(1, cmdServe),     // NAME ARG…: start a server; sets NAME_listen, NAME_url and NAME_admin
	"await":     command(3, cmdAwait),     // NAME stdout|stderr REGEXP: wait for output; sets match to the first group
	"output":    command(2, cmdOutput),    // NAME stdout|stderr: copy the output up to now to stdout
	"feed":      command(2, cmdFeed),      // NAME FILE: write a file to the standard input of a process
	"signal":    command(2, cmdSignal),    // NAME SIGNAL
	"insist":    command(2, cmdInsist),    // NAME SIGNAL: repeat a signal until the process ends
	"ended":     command(2, cmdEnded),     // NAME CODE: wait for the end; sets stdout and stderr to the output
	"opened":    command(1, cmdOpened),    // SUFFIX: wait until such a file was opened since the last start
	"appeared":  command(1, cmdAppeared),  // PATTERN: wait for a file
	"post":      command(4, cmdPost),      // STATUS URL TOKEN BODY: sets stdout to the body of the response
	"get":       command(2, cmdGet),       // STATUS URL [TOKEN]: sets stdout to the body; 200 waits while it is 503
	"accepted":  command(3, cmdAccepted),  // URL TOKEN BODY: post for at most 1 s until the response is 200
	"refused":   command(2, cmdRefused),   // URL TOKEN: post for at most 1 s until the response is 401
	"beginpost": command(3, cmdBeginPost), // NAME URL TOKEN: send the head of a request
	"endpost":   command(2, cmdEndPost),   // NAME STATUS: send the body
	"issue":     command(1, cmdIssue),     // NAME: write a certificate NAME.pem with its key NAME.key
	"setenv":    command(2, cmdSetenv),    // VARIABLE FILE
	"plants":    command(2, cmdPlants),    // COUNT FILE: write plants as JSON Lines
	"pack":      command(2, cmdPack),      // gzip|zstd FILE: write FILE.gz or FILE.zst
	"cut":       command(2, cmdCut),       // BYTES FILE: truncate a file
	"same":      command(2, cmdSame),      // FILE FILE…: require the same plants in all files, in any format
	"mode":      command(2, cmdMode),      // MODE FILE…: require the permissions
	"sql":       command(2, cmdSQL),       // FILE STATEMENTS
	"stored":    command(2, cmdStored),    // COUNT FILE: wait for stored plants; sets count to their number
	"damage":    command(2, cmdDamage),    // FILE TABLE: overwrite the first page of a table
	"writelock": command(1, cmdWriteLock), // FILE: lock a store with SQLite's write lock
	"lock":      command(1, cmdLock),      // FILE: lock a file with flock(2)
	"unlock":    command(1, cmdUnlock),    // FILE: undo lock
}

// command returns a script command that fails with the error of do.
func command(
	argsMin int, do func(ts *testscript.TestScript, s *script, args []string) error,
) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < argsMin {
			ts.Fatalf("! is not allowed; at least %d arguments are required", argsMin)
		}
		s, _ := ts.Value(scriptKey{}).(*script)
		ts.Check(do(ts, s, args))
	}
}

func cmdExits(ts *testscript.TestScript, _ *script, args []string) error {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exitStatus(exit.ProcessState)
	} else if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("exit code %d, want %d", got, want)
	}
	return nil
}

func cmdCompleted(ts *testscript.TestScript, _ *script, args []string) error {
	want, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(waitMax); ; {
		if err := ts.Exec("plantstore", append([]string{"__complete"}, args[1:]...)...); err != nil {
			return err
		}
		if want.MatchString(ts.ReadFile("stdout")) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the completion prints no match for %q", args[0])
		}
	}
}

func cmdStart(ts *testscript.TestScript, s *script, args []string) error {
	if err := s.openings.forget(); err != nil {
		return err
	}
	environ := append(cleanEnviron(), "TMPDIR="+ts.Getenv("TMPDIR"), fileVariable+"="+ts.Getenv(fileVariable))
	p, err := startProcess(ts.MkAbs("."), environ, args[1:]...)
	if err != nil {
		return err
	}
	if old := s.processes[args[0]]; old != nil {
		old.kill()
	}
	s.processes[args[0]] = p
	return nil
}

func cmdServe(ts *testscript.TestScript, s *script, args []string) error {
	args = append([]string{args[0], "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args[1:]...)
	if err := cmdStart(ts, s, args); err != nil {
		return err
	}
	p := s.processes[args[0]]
	match, err := p.await(p.stderr, readyLine)
	if err != nil {
		return err
	}
	for i, part := range []string{"_listen", "_url", "_admin"} {
		ts.Setenv(args[0]+part, match[i+1])
	}
	return nil
}

// process returns a process of the script and its stream stdout or stderr.
func (s *script) process(name, stream string) (*process, *stream, error) {
	p := s.processes[name]
	switch {
	case p == nil:
		return nil, nil, fmt.Errorf("there is no process %s", name)
	case stream == "stdout":
		return p, p.stdout, nil
	default:
		return p, p.stderr, nil
	}
}

func cmdAwait(ts *testscript.TestScript, s *script, args []string) error {
	p, stream, err := s.process(args[0], args[1])
	if err != nil {
		return err
	}
	match, err := p.await(stream, args[2])
	if err == nil {
		ts.Setenv("match", match[min(1, len(match)-1)])
	}
	return err
}

func cmdOutput(ts *testscript.TestScript, s *script, args []string) error {
	_, stream, err := s.process(args[0], args[1])
	if err == nil {
		_, err = io.WriteString(ts.Stdout(), stream.String())
	}
	return err
}

func cmdFeed(ts *testscript.TestScript, s *script, args []string) error {
	p, _, err := s.process(args[0], "")
	if err == nil {
		_, err = io.WriteString(p.stdin, ts.ReadFile(args[1]))
	}
	return err
}

var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL,
	"HUP": syscall.SIGHUP, "PIPE": syscall.SIGPIPE,
}

func cmdSignal(_ *testscript.TestScript, s *script, args []string) error {
	p, _, err := s.process(args[0], "")
	if err == nil {
		err = p.cmd.Process.Signal(signals[args[1]])
	}
	return err
}

func cmdInsist(_ *testscript.TestScript, s *script, args []string) error {
	p, _, err := s.process(args[0], "")
	if err != nil {
		return err
	}
	return poll("the end of "+args[0], func() bool {
		select {
		case <-p.ended:
			return true
		default:
			_ = p.cmd.Process.Signal(signals[args[1]]) // or it has ended
			return false
		}
	})
}

func cmdEnded(ts *testscript.TestScript, s *script, args []string) error {
	p, _, err := s.process(args[0], "")
	if err != nil {
		return err
	}
	code, err := p.wait()
	if err != nil {
		return err
	}
	fmt.Fprint(ts.Stdout(), p.stdout)
	fmt.Fprint(ts.Stderr(), p.stderr)
	if strconv.Itoa(code) != args[1] {
		return fmt.Errorf("%s ended with %d, want %s; its standard error:\n%s", args[0], code, args[1], p.stderr)
	}
	return nil
}

func cmdOpened(_ *testscript.TestScript, s *script, args []string) error {
	return within(waitMax, func() (bool, error) { return s.openings.has(args[0]) })
}

func cmdAppeared(ts *testscript.TestScript, _ *script, args []string) error {
	return poll(args[0], func() bool {
		names, _ := filepath.Glob(ts.MkAbs(args[0]))
		return len(names) > 0
	})
}

func cmdSetenv(ts *testscript.TestScript, _ *script, args []string) error {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
	return nil
}

func cmdPlants(ts *testscript.TestScript, _ *script, args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return os.WriteFile(ts.MkAbs(args[1]), []byte(somePlants(count)), 0o600)
}

// somePlants returns plants as JSON Lines with the ids from 1.
func somePlants(count int) string {
	var text strings.Builder
	for id := 1; id <= count; id++ {
		fmt.Fprintf(&text, "{\"id\":%d,\"name\":\"Carex no. %d\",\"tag\":\"sedge\"}\n", id, id)
	}
	return text.String()
}

func cmdCut(ts *testscript.TestScript, _ *script, args []string) error {
	bytes, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	return os.Truncate(ts.MkAbs(args[1]), bytes)
}

func cmdMode(ts *testscript.TestScript, _ *script, args []string) error {
	for _, name := range args[1:] {
		info, err := os.Stat(ts.MkAbs(name))
		if err != nil {
			return err
		}
		if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
			return fmt.Errorf("%s has mode %s, want %s", name, got, args[0])
		}
	}
	return nil
}

func cmdSQL(ts *testscript.TestScript, _ *script, args []string) error {
	return execSQL(ts.MkAbs(args[0]), args[1])
}

func execSQL(path, statements string) error {
	c, err := sqlite3.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(c.Exec(statements), c.Close())
}

func queryInt(path, query string) (int64, error) {
	c, err := sqlite3.Open(path)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.BusyTimeout(2000)
	return c.QueryInt(query)
}

func cmdStored(ts *testscript.TestScript, _ *script, args []string) error {
	want, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	var count int64
	err = poll(args[0]+" plants", func() bool {
		_, fault := os.Stat(ts.MkAbs(args[1]))
		if fault == nil {
			count, fault = queryInt(ts.MkAbs(args[1]), "SELECT count(*) FROM plants") // an error: there is no table yet
		}
		return fault == nil && count >= want
	})
	ts.Setenv("count", strconv.FormatInt(count, 10))
	return err
}

func cmdDamage(ts *testscript.TestScript, _ *script, args []string) error {
	const pageBytes = 4096
	path := ts.MkAbs(args[0])
	page, err := queryInt(path, "SELECT rootpage FROM sqlite_schema WHERE name = '"+args[1]+"'")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(slices.Repeat([]byte{0xff}, pageBytes), (page-1)*pageBytes)
	return errors.Join(err, f.Close())
}

func cmdWriteLock(ts *testscript.TestScript, s *script, args []string) error {
	c, err := sqlite3.Open(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	s.writers[args[0]] = c
	return c.Exec("BEGIN IMMEDIATE")
}

func cmdLock(ts *testscript.TestScript, s *script, args []string) error {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.locks[args[0]] = f
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
}

func cmdUnlock(_ *testscript.TestScript, s *script, args []string) error {
	return s.locks[args[0]].Close()
}
