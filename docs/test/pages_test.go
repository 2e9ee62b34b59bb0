// Package pages executes the commands of README.md, docs/tutorial, docs/how-to and docs/runbooks, and the tests of the
// rules of deploy/. README.md of this directory has the form of a page.
package pages

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repositoryEnv names the repository to the stages.
const repositoryEnv = "DOCS_TEST_REPOSITORY"

// needs are the programs that a page needs beside those of every page, and their Debian packages.
var needs = map[string]map[string]string{
	"accept-jwt":                      {"jq": "jq", "python3": "python3", "openssl": "openssl"},
	"back-up-postgresql":              {"pg_ctlcluster": "postgresql", "pgbackrest": "pgbackrest", "jq": "jq"},
	"call-from-a-browser":             {"python3": "python3", "chromium": "chromium"},
	"certificate-expires":             {"openssl": "openssl"},
	"certificate-refused":             {"openssl": "openssl"},
	"copy-backups-to-another-machine": {"sshd": "openssh-server", "rsync": "rsync"},
	"fail-over-with-patroni": {
		"sshd": "openssh-server", "patroni": "patroni", "etcd": "etcd-server", "pg_ctlcluster": "postgresql",
	},
	"fail-over-with-pg-auto-failover": {
		"sshd": "openssh-server", "pg_autoctl": "pg-auto-failover-cli", "pg_ctlcluster": "postgresql",
	},
	"follow-a-request":             {"promtool": "prometheus", "jq": "jq"},
	"generate-a-typescript-client": {"node": "nodejs"},
	"generate-python-types":        {"node": "nodejs", "python3": "python3", "mypy": "mypy"},
	"give-the-office-the-console":  {"openssl": "openssl"},
	"grant-postgresql-rights":      {"pg_ctlcluster": "postgresql"},
	"import-and-export":            {"jq": "jq"},
	"install-a-package":            {"dpkg": "dpkg", "apt-get": "apt"},
	"learn-of-warnings":            {"python3": "python3"},
	"monitor-and-alert":            {"promtool": "prometheus", "jq": "jq"},
	"move-back-to-a-file":          {"pg_ctlcluster": "postgresql"},
	"move-to-postgresql":           {"pg_ctlcluster": "postgresql"},
	"not-durable":                  {"pg_ctlcluster": "postgresql"},
	"replace-a-leaked-token":       {"jq": "jq"},
	"retry-from-javascript":        {"node": "nodejs", "python3": "python3"},
	"retry-from-python":            {"python3": "python3"},
	"run-a-restore-drill":          {"jq": "jq"},
	"run-behind-caddy":             {"caddy": "caddy"},
	"run-behind-haproxy":           {"haproxy": "haproxy"},
	"run-behind-nginx":             {"nginx": "nginx"},
	"run-on-two-machines":          {"haproxy": "haproxy", "sshd": "openssh-server", "openssl": "openssl"},
	"run-under-systemd":            {"openssl": "openssl"},
	"run-with-compose":             {"openssl": "openssl"},
	"send-a-file-with-curl":        {"python3": "python3"},
	"standby-missing":              {"pg_ctlcluster": "postgresql"},
	"store-unreachable":            {"pg_ctlcluster": "postgresql"},
	"upgrade-on-postgresql":        {"pg_ctlcluster": "postgresql"},
	"use-postgresql":               {"pg_ctlcluster": "postgresql"},
	"use-the-go-client":            {"python3": "python3"},
	"verify-a-download":            {"minisign": "minisign"},
	"wal-grows":                    {"fuser": "psmisc"},
}

// builds are the modules of the repository that have a program for a page. The set-up script installs it.
var builds = map[string]string{
	"follow-a-request":  "tools/otelcol",
	"install-a-package": "tools/packages",
	"verify-a-download": "tools/release",
}

func TestMain(m *testing.M) {
	j := job{os.Getenv(jobEnv)}
	switch os.Getenv(stageEnv) {
	case "init":
		fmt.Fprintln(os.Stderr, "init:", stageInit(j)) // returns only after an error
		os.Exit(1)
	case "reader":
		report := os.NewFile(3, "report")
		text := "ok"
		if err := stageReader(j); err != nil {
			text = err.Error()
		}
		_, _ = io.WriteString(report, text)
		_ = report.Close()
		select {} // the machine ends when the test kills it
	}
	os.Exit(m.Run())
}

// TestPages executes README.md and every page of docs/tutorial, docs/how-to and docs/runbooks.
func TestPages(t *testing.T) {
	program := buildProgram(t)
	pages := []string{"../../README.md"}
	for _, dir := range []string{"../tutorial", "../how-to", "../runbooks"} {
		found, err := filepath.Glob(dir + "/*.md")
		if err != nil || len(found) == 0 {
			t.Fatalf("no page in %s: %v", dir, err)
		}
		pages = append(pages, found...)
	}
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := execute(t, program, path, filepath.Join("testdata", name+".sh")); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
}

// execute executes a page, if this machine has the means for it.
func execute(t *testing.T, program, path, setup string) error {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if check := strings.TrimSuffix(setup, ".sh") + ".check.md"; exists(check) {
		more, err := os.ReadFile(check)
		if err != nil {
			t.Fatal(err)
		}
		text = slices.Concat(text, []byte("\n"), more)
	}
	steps, err := parse(string(text))
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return nil
	}
	j := newJob(t, program, text, setup)
	programs := map[string]string{"bash": "bash", "ip": "iproute2", "curl": "curl"}
	root := os.Geteuid() == 0
	need(t, root || !j.needsMachine(steps), "root")
	if root {
		programs["sudo"], programs["systemctl"], programs["useradd"] = "sudo", "systemd", "passwd"
	}
	name := strings.TrimSuffix(filepath.Base(path), ".md")
	maps.Copy(programs, needs[name])
	for name, of := range programs {
		_, err := exec.LookPath(name)
		need(t, err == nil, fmt.Sprintf("%s, of Debian's package %s", name, of))
	}
	if module := builds[name]; module != "" {
		buildIn(t, os.Getenv(repositoryEnv), module, j.bin())
	}
	if lock := filepath.Join("testdata/npm", name); exists(lock) {
		installPackages(t, lock, steps, filepath.Join(j.dir, "npm"))
	}
	return j.run(t)
}

// need skips the test where a requirement is missing; under CI=true that is a failure.
func need(t *testing.T, ok bool, requirement string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		t.Fatalf("this page needs %s", requirement)
	default:
		t.Skipf("this page needs %s", requirement)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installPackages installs the packages of the page's package.json in the versions of the lock file. The machine of
// the page has no network.
func installPackages(t *testing.T, lock string, steps []step, dir string) {
	t.Helper()
	_, err := exec.LookPath("npm")
	need(t, err == nil, "npm, of Debian's package npm")
	i := slices.IndexFunc(steps, func(s step) bool { return filepath.Base(s.Path) == "package.json" })
	if i < 0 {
		t.Fatalf("%s has a lock file, but the page has no package.json", lock)
	}
	if err := os.CopyFS(dir, os.DirFS(lock)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(steps[i].Text), 0o600); err != nil {
		t.Fatal(err)
	}
	npmCI(t, dir)
}

// newJob makes the directory that the stages of a page share.
func newJob(t *testing.T, program string, text []byte, setup string) job {
	t.Helper()
	dir := t.TempDir()
	j := job{dir}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, self, j.runner())
	copyFile(t, program, filepath.Join(j.bin(), "plantstore"))
	if err := os.WriteFile(j.page(), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(setup); err == nil {
		if err := os.CopyFS(j.testdata(), os.DirFS(filepath.Dir(setup))); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Base(setup), j.setup()); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

// buildProgram builds the program and passes the places of Go's files to the stages.
func buildProgram(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "-json", "GOROOT", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	var places map[string]string
	if err := json.Unmarshal(out, &places); err != nil {
		t.Fatal(err)
	}
	places[repositoryEnv] = root
	for name, value := range places {
		t.Setenv(name, value)
	}
	// The machines have no network, and a page builds Pebble.
	download := exec.Command("go", "mod", "download", "-C", root, "-modfile=tools/pebble.mod")
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("download the modules of Pebble: %v\n%s", err, out)
	}
	return buildIn(t, root, "cmd/plantstore", t.TempDir())
}

// buildIn builds the program of a directory of the repository, and returns its path.
func buildIn(t *testing.T, root, source, to string) string {
	t.Helper()
	program := filepath.Join(to, filepath.Base(source))
	build := exec.Command("go", "build", "-C", filepath.Join(root, source), "-buildvcs=false", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", source, err, out)
	}
	return program
}
