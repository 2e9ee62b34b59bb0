package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// interruptedStore is an engine with the method Interrupted alone.
type interruptedStore struct {
	wholeEngine // nil

	interrupted bool
	err         error
}

func (s interruptedStore) Interrupted(context.Context) (bool, error) { return s.interrupted, s.err }

// TestWarnOfMove tests that a failed check is not logged as an interrupted move.
func TestWarnOfMove(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		store interruptedStore
		want  string
	}{
		"none": {interruptedStore{}, ""},
		"interrupted": {
			interruptedStore{interrupted: true},
			`level=WARN msg="an interrupted move still captures each new plant; ` +
				`run the same move again, or plantstore move --from … --abandon"` + "\n",
		},
		"unknown": {
			interruptedStore{err: errors.New("disk")},
			`level=WARN msg="could not check for an interrupted move of the store" error=disk` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			withoutTime := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}
			handler := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime})
			warnOfMove(t.Context(), test.store, slog.New(handler))
			if got := log.String(); got != test.want {
				t.Errorf("got  %swant %s", got, test.want)
			}
		})
	}
}

// TestStopDuringStart stops a server while it connects to a database that does not respond: a service manager must not
// report a failure.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	database, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	p, err := startProcess(t.TempDir(), cleanEnviron(),
		"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--db", "postgres://flora@"+database.Addr().String()+"/plants?sslmode=disable&connect_timeout=60")
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	connection, err := database.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code, err := p.wait()
	if err != nil || code != exitOK {
		t.Errorf("exit code %d, %v, want %d", code, err, exitOK)
	}
	log := strings.TrimSpace(p.stderr.String())
	if !strings.HasSuffix(log, `level=INFO msg="stopped before it was ready"`) || strings.Contains(log, "\n") {
		t.Errorf("log: %s", log)
	}
}

// TestStopBeforeStart stops a server while it reads the S3 keys, before it creates anything. The program that has the
// keys sends the signal.
func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFileText(t, dir+"/keys.sh", "kill -TERM $PPID\nsleep 0.2\n"+
		`echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b"}'`+"\n")
	writeFileText(t, dir+"/aws", "[default]\ncredential_process = sh "+dir+"/keys.sh\n")
	environ := slices.DeleteFunc(s3Environ("http://127.0.0.1:1", "", ""), func(entry string) bool {
		return strings.HasPrefix(entry, "AWS_CONFIG_FILE=") || strings.HasPrefix(entry, "AWS_SHARED_CREDENTIALS_FILE=")
	})
	environ = append(environ, "AWS_CONFIG_FILE="+dir+"/aws", "AWS_SHARED_CREDENTIALS_FILE="+dir+"/aws")
	code, stdout, stderr := runIn(t, dir, environ, "serve", "--db", "a.db", "--listen", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0", "--backup-dir", "s3://nursery-backups/plants")
	if code != exitOK || stdout != "" || !strings.Contains(stderr, "stopped") {
		t.Errorf("got %d, %s%s, want 0", code, stdout, stderr)
	}
}
