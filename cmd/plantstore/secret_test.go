package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPasswordsStayHidden tests that the output, the logs and the files of a command have no part of a password, for
// all forms and sources of the address of a store. The addresses are unreachable, so every command except config fails.
func TestPasswordsStayHidden(t *testing.T) {
	t.Parallel()
	const head, tail = "ImpatiensNoli", "TangereFlore" // parts of the password, before and after special characters
	addresses := []string{
		"postgres://flora:HEADTAIL@127.0.0.1:1/plants",
		"POSTGRES://flora:HEADTAIL@127.0.0.1:1/plants",
		"PostgreSQL://flora:HEADTAIL@127.0.0.1:1/plants",
		"postgres:/flora:HEADTAIL@127.0.0.1:1/plants",
		"postgres:flora:HEADTAIL@127.0.0.1:1/plants",
		"postgres//flora:HEADTAIL@127.0.0.1:1/plants",
		"//flora:HEADTAIL@127.0.0.1:1/plants",
		"postgres%3A%2F%2Fflora%3AHEADTAIL%40127.0.0.1%2Fplants",
		"db1/plants?password=HEADTAIL",
		"mysql://flora:HEADTAIL@127.0.0.1/plants",
		"jdbc:postgresql://127.0.0.1:1/plants?user=flora&password=HEADTAIL",
		"flora:HEADTAIL@127.0.0.1:1/plants",
		"host=127.0.0.1 port=1 user=u password=HEADTAIL",
		"host=127.0.0.1 port=1 password='HEAD TAIL'",
		"password = HEADTAIL host = 127.0.0.1",
		"127.0.0.1:1/plants?password=HEADTAIL",
		"postgres://127.0.0.1:1/plants?password=HEADTAIL",
		"postgres://127.0.0.1:1/plants?sslmode=disable&sslpassword=HEADTAIL",
		"postgres://127.0.0.1:1/plants?pass%77ord=HEADTAIL",
		"postgres://127.0.0.1:1/plants?PASSWORD=HEADTAIL",
		"postgres://127.0.0.1:1/plants?SslPassword=HEADTAIL",
		"postgres://127.0.0.1:1/plants?password=HEAD&TAIL",
		"postgres://127.0.0.1:1/plants?password=HEAD&TAIL=x",
		"postgres://127.0.0.1:1/plants?password=HEAD=TAIL",
		"postgres://127.0.0.1:1/plants?target_session_attrs=none&password=HEADTAIL",
		"postgres://flora:HEAD%40TAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD%zzTAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD@TAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD/TAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD?TAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD#TAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD:TAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD TAIL@127.0.0.1:1/plants",
		"postgres://flora:HEAD\nTAIL@127.0.0.1:1/plants",
		"postgres://flora:12/HEADTAIL@127.0.0.1:1/plants",
		"postgres://flora%3AHEADTAIL@127.0.0.1:1/plants",
		"postgres://flora%3AHEADTAIL%40127.0.0.1/plants",
		"postgres://flora:HEADTAIL@[::1/plants",
		"postgres://flora:HEADTAIL@127.0.0.1:none/plants",
	}
	calls := [][]string{ // ADDRESS is the address; without it, the environment has the address
		{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
		{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--db=ADDRESS"},
		{"serve", "--config", "settings.yaml"},
		{"serve", "--config", "listen.yaml"},
		{"serve", "--config", "origins.yaml"},
		{"serve", "--config", "backups.yaml"},
		{"serve", "--cors-origins", "https://plants.example,ADDRESS"},
		{"serve", "--backup-dir", "ADDRESS"},
		{"serve", "ADDRESS"},
		{"serve", "--listen", "ADDRESS"},
		{"config"},
		{"config", "--db", "ADDRESS"},
		{"get", "1"},
		{"get", "ADDRESS"},
		{"list", "--db", "ADDRESS"},
		{"token", "create", "nursery", "--no-expiry", "--create"},
		{"token", "create", "ADDRESS", "--no-expiry"},
		{"import", "one.csv", "--create"},
		{"export", "-o", "out.csv"},
		{"verify"},
		{"verify", "ADDRESS"},
		{"backup", "copy.db"},
		{"backup", "ADDRESS", "--db", "none.db"},
		{"restore", "copy.db"},
		{"move", "--from", "ADDRESS", "--to", "new.db"},
		{"move", "--from", "none.db", "--to", "ADDRESS"},
		{"move", "--from", "ADDRESS", "--abandon"},
	}
	share := 1 // each address is tested with one in share calls, and each call with one in share addresses
	if testing.Short() {
		share = 9
	}
	for i, address := range addresses {
		address = strings.NewReplacer("HEAD", head, "TAIL", tail).Replace(address)
		t.Run(strings.NewReplacer(head, "HEAD", tail, "TAIL", "/", "|").Replace(address), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFileText(t, filepath.Join(dir, "one.csv"), "id,name\n1,Rosa canina\n")
			inFile := "'" + strings.NewReplacer("'", "''", "\n", "\n\n").Replace(address) + "'"
			writeFileText(t, filepath.Join(dir, "settings.yaml"), "db: "+inFile+"\n")
			writeFileText(t, filepath.Join(dir, "listen.yaml"), "listen: "+inFile+"\n")
			writeFileText(t, filepath.Join(dir, "origins.yaml"), "cors-origins: [https://plants.example, "+inFile+"]\n")
			writeFileText(t, filepath.Join(dir, "backups.yaml"), "backup-dir: "+inFile+"\n")
			for j, call := range calls {
				if (i+j)%share != 0 {
					continue
				}
				args := make([]string, len(call))
				hasAddress := false
				for at, arg := range call {
					args[at] = strings.ReplaceAll(arg, "ADDRESS", address)
					hasAddress = hasAddress || args[at] != arg || arg == "--config"
				}
				ctx, cancel := context.WithTimeout(t.Context(), waitMax) // serve may accept an address
				defer cancel()
				cmd := exec.CommandContext(ctx, "plantstore", args...)
				cmd.Dir, cmd.Env = dir, cleanEnviron()
				if !hasAddress {
					cmd.Env = append(cmd.Env, "PLANTSTORE_DB="+address)
				}
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if call[0] != "config" && (!errors.As(err, &exit) || exit.ExitCode() > exitUsage) {
					t.Errorf("%s: %v, want exit code 1 or 2; it printed\n%s", call, err, out)
				}
				if bytes.Contains(out, []byte(head)) || bytes.Contains(out, []byte(tail)) {
					t.Errorf("%s printed\n%s", call, out)
				}
			}
			files := os.DirFS(dir)
			err := fs.WalkDir(files, ".", func(path string, _ fs.DirEntry, err error) error {
				if err == nil && path != "." && path != "one.csv" && !strings.HasSuffix(path, ".yaml") {
					t.Errorf("%s was created", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
