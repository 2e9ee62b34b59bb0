package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"plantstore/internal/auth"
	"plantstore/internal/config"
	"plantstore/internal/s3/s3test"
)

// TestRefused makes the calls of testdata/refused.txtar, which are usage errors, without a process. Each line has
// variables, a call and, after the arrow, its message. Its words are quoted as in a shell with ', and as in Go with ".
// The files of the archive are in the working directory, and no call creates another one.
func TestRefused(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/refused.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	// serve ignores these signals. Children reset a signal that this process handles.
	defer signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": s3test.AccessKey, "AWS_SECRET_ACCESS_KEY": s3test.SecretKey, "AWS_ENDPOINT_URL": "",
	} {
		t.Setenv(name, value)
	}
	var given []string
	add := func(name string, text []byte, mode os.FileMode) {
		t.Helper()
		given = append(given, name)
		if err := os.WriteFile(name, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range archive.Files {
		add(file.Name, file.Data, 0o600)
	}
	add("huge", make([]byte, 1<<20+1), 0o600)
	add("others.secret", []byte("s3cret\n"), 0o604)
	add("long.secret", []byte(strings.Repeat("s3cret", 1000)), 0o600)
	for line := range strings.Lines(string(archive.Comment)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		call, want, _ := strings.Cut(line, " => ")
		words := wordsOf(t, call)
		at := slices.Index(words, "plantstore")
		code, out, message := inProcess(t, words[:at], words[at+1:])
		if code != exitUsage || out != "" || message != "plantstore: "+want+"\n" {
			t.Errorf("%s\n got %d: %s%swant 2: plantstore: %s", call, code, out, message, want)
		}
		if strings.Contains(message, "s3cret") {
			t.Errorf("%s: the message has a secret: %s", call, message)
		}
	}
	left, err := filepath.Glob("*")
	slices.Sort(given)
	if err != nil || !slices.Equal(left, given) {
		t.Errorf("the directory has %q, %v; want %q", left, err, given)
	}
}

// inProcess makes a call with an empty standard input in the process of the test.
func inProcess(t *testing.T, environ, args []string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	var out, message bytes.Buffer
	code = run(ctx, args, config.NewEnvironment(environ), strings.NewReader(""), &out, &message)
	return code, out.String(), message.String()
}

// wordsOf splits a call into words.
func wordsOf(t *testing.T, call string) (words []string) {
	t.Helper()
	for call = strings.TrimSpace(call); call != ""; call = strings.TrimLeft(call, " ") {
		var word string
		for call != "" && call[0] != ' ' {
			var part string
			switch call[0] {
			case '\'':
				part, call, _ = strings.Cut(call[1:], "'")
			case '"':
				quoted, err := strconv.QuotedPrefix(call)
				if err == nil {
					part, err = strconv.Unquote(quoted)
				}
				if err != nil {
					t.Fatalf("%s: %v", call, err)
				}
				call = call[len(quoted):]
			default:
				end := strings.IndexAny(call, ` '"`)
				if end < 0 {
					end = len(call)
				}
				part, call = call[:end], call[end:]
			}
			word += part
		}
		words = append(words, word)
	}
	return words
}

// TestSecretInArguments shows that a message has no token of the arguments.
func TestSecretInArguments(t *testing.T) {
	t.Parallel()
	secret := auth.Mint()
	const form = "the name has the form of a secret, which must not be an argument; see plantstore token revoke --help"
	environ := []string{config.Variable("db") + "=" + filepath.Join(t.TempDir(), "a.db")}
	for call, want := range map[string]string{
		"token revoke SECRET": form, "token rotate SECRET": form, "token create SECRET --no-expiry": form,
		"SECRET":     `unknown command (a token, hidden) for "plantstore"; see plantstore --help`,
		"get SECRET": "", "-SECRET": "", "list --SECRET": "", "list --limit SECRET": "",
		"token revoke --token-file SECRET": "open (a token, hidden) no such file or directory",
	} {
		code, _, message := inProcess(t, environ, strings.Fields(strings.ReplaceAll(call, "SECRET", secret)))
		if code == exitOK || strings.Contains(message, "pst_") || !strings.HasPrefix(message, "plantstore: "+want) {
			t.Errorf("%s: got %d, %s", call, code, message)
		}
	}
}

// TestWebhookAddressInConfig shows that config prints no secret of an address that serve would refuse.
func TestWebhookAddressInConfig(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"http://u:s3cret@a.example/", "u:s3cret@a.example", "https://a:s3cret@", "https://[::1/?s3cret", "ftp://a/?s3cret",
	} {
		for _, form := range []string{"--json", "--json=false"} {
			for _, name := range []string{"webhook-url", "heartbeat-url", "warning-url"} {
				code, out, message := inProcess(t, nil, []string{"config", form, "--" + name, address})
				if code != exitOK || !strings.Contains(out, name) || strings.Contains(out+message, "s3cret") {
					t.Errorf("%s --%s %s: got %d, %s%s", form, name, address, code, out, message)
				}
			}
		}
	}
}
