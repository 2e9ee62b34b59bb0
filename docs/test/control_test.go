package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestControl executes pages that are wrong: the test must report each of them, and no page that is right.
func TestControl(t *testing.T) {
	program := buildProgram(t)
	if _, err := parse("```sh\ntrue\n"); err == nil {
		t.Error("the fence is not closed; want an error")
	}
	for name, c := range controls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(path, []byte(c.text()), 0o600); err != nil {
				t.Fatal(err)
			}
			err := execute(t, program, path, "")
			switch {
			case c.err == "" && err != nil:
				t.Errorf("the page is right; got %v", err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %v; want an error with %q", err, c.err)
			}
		})
	}
}

// control is a page and the error that it causes; no error if the page is right.
type control struct{ page, err string }

// text is the page in Markdown: "sh:" and the like become fences, and an empty line ends a block.
func (c control) text() string {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(c.page), "\n\n") {
		info, text, _ := strings.Cut(block, ":\n")
		b.WriteString("```" + info + "\n" + text + "\n```\n\n")
	}
	return b.String()
}

var controls = map[string]control{
	"right":           {"sh:\nplantstore version\nX=1\n\ntext:\nplantstore …\n…\n\nsh:\necho $X\n\ntext:\n1", ""},
	"failed command":  {"sh:\nfalse\necho later", "line 1: exit code 1"},
	"failed pipe":     {"sh:\nfalse | true", "line 1: exit code 1"},
	"unknown command": {"sh:\nplantstore sow", "line 1: exit code 2"},
	"unset variable":  {"sh:\necho $NOT_SET", "line 1: exit code 1"},
	"wrong output":    {"sh:\necho 1 plant\n\ntext:\n2 plants", "line 5: the output differs"},
	"more output":     {"sh:\nprintf '1\\n2\\n'\n\ntext:\n1", "line 5: the output differs"},
	"less output":     {"sh:\necho 1\n\ntext:\n1\n2", "line 5: the output differs"},
	"right exit code": {"sh exit=3:\nfalse || exit 3\n\nsh:\necho on\n\ntext:\non", ""},
	"first failure":   {"sh exit=3:\n(exit 4)\nexit 3", "exit code 4, want 3"},
	"no failure":      {"sh exit=3:\ntrue", "exit code 0, want 3"},
	"server fails":    {"sh terminal=2:\nplantstore serve --listen nowhere\n\ntext:\n…msg=ready…", "line 1: exit code"},
	"missing file":    {"sh:\ncat garden/plants.txt", "line 1: exit code 1"},
	"file":            {"text file=garden/plants.txt:\nrose\n\nsh:\ncat garden/plants.txt\n\ntext:\nrose", ""},
	"varying parts":   {"sh:\ndate -Is\n\ntext:\n2026-01-02T03:04:05+00:00", ""},
	"output of none":  {"text:\nrose", "line 1: the output belongs to no script"},
	"unknown word":    {"sh skip:\ntrue", `unknown attribute "skip"`},
	"no wait":         {"sh terminal=2:\nsleep 1\n\ntext:\n…", "line 5: it matches no output"},
	"no language":     {":\nplantstore version", "the fence has no language"},
	"sudo":            {"sh:\nid -un\nsudo id -un\ncat /etc/hostname\n\ntext:\nreader\nroot\nstore", ""},
	"sudo fails":      {"sh:\nsudo false", "line 1: exit code 1"},
	"unit fails": {
		"ini file=/etc/systemd/system/a.service:\n[Service]\nType=oneshot\nExecStart=/nowhere\n\n" +
			"sh:\nsudo systemctl start a", "line 7: exit code 1",
	},
	"file of root":     {"sh:\nsudo true\necho a > /etc/hostname", "Permission denied"},
	"two terminals":    {twoTerminals, ""},
	"failure after it": {strings.Replace(twoTerminals, "ls plantstore.db", "ls no.db", 1), "exit code 2"},
}

// twoTerminals starts a server in a second terminal, uses it from the first, and starts another program in the second,
// for which the test presses Ctrl-C.
const twoTerminals = `sh terminal=2:
plantstore serve

text:
…
…msg=ready…

sh:
curl -s http://127.0.0.1:8081/livez
ls plantstore.db

text:
…
plantstore.db

sh terminal=2:
echo stopped

text:
stopped

sh exit=7:
curl -s http://127.0.0.1:8081/livez`
