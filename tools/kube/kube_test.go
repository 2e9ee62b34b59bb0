// Package kube tests the files of deploy/ for Kubernetes and compose: the chart with Helm's engine, its objects with
// the validation of the API server, its pods with crun, and the compose file with the loader of Docker Compose.
package kube

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

const (
	repository = "../.."
	chartDir   = repository + "/deploy/helm/plantstore"
	namespace  = "plants"
)

var update = flag.Bool("update", false, "write the manifests of deploy/kubernetes")

// values are values of the chart, by the name of the test.
var values = map[string]string{
	"embedded": `
image: {repository: registry.example/plantstore}
`,
	"standby": `
image: {repository: registry.example/plantstore}
embedded: {standby: true}
settings: {log-format: json, backup-dir: s3://nursery-backups/plants, backup-sync: true, failover: 10s}
secrets: [plantstore-s3]
env: {AWS_REGION: us-east-1, AWS_SHARED_CREDENTIALS_FILE: /etc/plantstore/secrets/plantstore-s3/credentials}
`,
	"postgres": `
image: {repository: registry.example/plantstore}
store: postgres
postgres:
  url: postgres://plants_server@db.example/plants
  passwordSecret: plantstore-postgres
  caSecret: plantstore-postgres-ca
`,
	"plain": `
image: {repository: registry.example/plantstore, tag: 1.2.3}
tls: {enabled: false}
embedded: {accessMode: ReadWriteOnce, storageClass: fast, size: 500Mi}
`,
	// Names that YAML would read as numbers and truth values.
	"odd": `
image: {repository: "1000", tag: "1.0", pullSecrets: ["1e3"]}
tls: {secret: "123"}
embedded: {storageClass: "true"}
secrets: ["0123", "null"]
env: {"NO": "no", "Y": "1"}
networkPolicy: {admin: [{podSelector: {}}]}
serviceMonitor: {enabled: true, tokenSecret: "1e3", caSecret: "on"}
nodeSelector: {gpu: "false"}
`,
	"all": `
image:
  repository: registry.example/plantstore
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  pullSecrets: [registry]
store: postgres
postgres:
  url: postgres://plants_server@db1.example,db2.example/plants
  replicas: 5
  passwordSecret: plantstore-postgres
  caSecret: plantstore-postgres-ca
tls: {secret: plants-example}
settings:
  log-format: json
  connections-per-address: 1000000
  audit-keep: 1000d
  trusted-proxies: [10.0.0.0/8, 2001:db8::/32]
  webhook-url: [https://hooks.example/plants]
  webhook-secret-file: /etc/plantstore/secrets/plantstore-webhook/secret
secrets: [plantstore-webhook, other]
env: {OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector.example:4318", GOGC: "200"}
service: {type: LoadBalancer, annotations: {example.com/kind: internal}}
serviceAccount: {annotations: {example.com/role: plants}}
networkPolicy:
  public: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]
  admin: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
serviceMonitor:
  {enabled: true, labels: {release: prometheus}, tokenSecret: plantstore-metrics, caSecret: plants-example}
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}
nodeSelector: {kubernetes.io/arch: arm64}
tolerations: [{key: dedicated, operator: Exists}]
`,
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// render returns the files that Helm renders for a release with these values, in YAML.
func render(t *testing.T, release, values string) (map[string]string, error) {
	t.Helper()
	parsed, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	loaded := loadChart(t)
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, parsed, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

// manifests returns the objects as YAML, in the order in which Helm installs them.
func manifests(t *testing.T, release, values string) []string {
	t.Helper()
	files, err := render(t, release, values)
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "plantstore/templates/NOTES.txt")
	_, sorted, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(sorted))
	for i, manifest := range sorted {
		texts[i] = strings.TrimSpace(manifest.Content) + "\n"
	}
	return texts
}

// programDir has the program. TestMain removes it.
var programDir string

func TestMain(m *testing.M) {
	var err error
	if programDir, err = os.MkdirTemp("", "kube-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(programDir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// builtProgram builds the program as the image has it, without a loader.
var builtProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDir, "plantstore")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=exe",
		"-ldflags=-s -w -buildid=", "-o", path, "./cmd/plantstore")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// buildProgram returns the absolute path of the program.
func buildProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(insideEnv); path != "" {
		return path
	}
	path, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// need skips a test without a program; under CI=true that is a failure.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing", program)
	}
	t.Skipf("%s is missing", program)
}

// manifestsHead is the beginning of the files of deploy/kubernetes.
const manifestsHead = `# The objects of the chart deploy/helm/plantstore, for a cluster without Helm.
# See docs/how-to/run-on-kubernetes.md.
# Do not edit: cd tools/kube && go test -run TestManifests -update . writes this file.
---
`

// TestManifests checks that deploy/kubernetes has the objects that the chart renders.
func TestManifests(t *testing.T) {
	for _, name := range []string{"embedded", "postgres"} {
		want := manifestsHead + strings.Join(manifests(t, "plantstore", values[name]), "---\n")
		path := repository + "/deploy/kubernetes/" + name + ".yaml"
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s differs from the chart; run: go test -run TestManifests -update .", path)
		}
	}
}

// TestNotes checks the commands that Helm prints after an installation.
func TestNotes(t *testing.T) {
	for name, want := range map[string][]string{
		"embedded": {"--namespace plants exec shop-plantstore-0 -- /plantstore token create", "uninstall keeps"},
		"postgres": {"exec deploy/shop-plantstore -- /plantstore token create", "Secret plantstore-tls"},
		"standby": {
			"exec svc/shop-plantstore -- /plantstore", "forward svc/shop-plantstore-admin 8081", "data-shop-plantstore-1",
		},
		"plain": {"http://shop-plantstore.plants.svc/plants", "accepts plain HTTP"},
	} {
		files, err := render(t, "shop", values[name])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if notes := files["plantstore/templates/NOTES.txt"]; !strings.Contains(notes, text) {
				t.Errorf("%s: the notes have no %q:\n%s", name, text, notes)
			}
		}
	}
}

// TestWrongValues checks that wrong values are errors, and that the message names the value and the remedy.
func TestWrongValues(t *testing.T) {
	const (
		image    = "image: {repository: registry.example/plantstore}\n"
		postgres = image + "store: postgres\n"
	)
	for _, tt := range []struct{ values, want string }{
		{"", "image.repository is empty: set it to the image in your registry"},
		{image + "replicas: 2", "additional properties 'replicas' not allowed"},
		{image + "embedded: {replicas: 2}", "at '/embedded': additional properties 'replicas' not allowed"},
		{image + "embedded: {standby: true}", "embedded.standby needs settings.backup-dir with a bucket"},
		{image + "embedded: {standby: true}\nsettings: {backup-dir: /mnt}", "needs settings.backup-dir with a bucket"},
		{image + "embedded: {standby: true}\nsettings: {backup-dir: 's3://b/p'}", "embedded.standby needs settings.failover"},
		{image + "settings: {standby: true}", "settings.standby is set by the chart"},
		{postgres + "embedded: {standby: true}\npostgres: {url: 'postgres://u@db/plants'}", "use postgres.replicas"},
		{image + "embedded: {accessMode: ReadWriteMany}", "at '/embedded/accessMode': value must be one of"},
		{image + "store: sqlite", "at '/store': value must be one of 'embedded', 'postgres'"},
		{image + "postgres: {url: postgres://db/plants}", "store is embedded: set store to postgres"},
		{postgres, "postgres.url is empty: set it to the address"},
		{postgres + "postgres: {url: db.example}", "postgres.url must begin with postgres://"},
		{postgres + "postgres: {url: 'postgres://u:hush@db/plants'}", "put it into postgres.passwordSecret"},
		{postgres + "postgres: {url: 'postgres://u:hu@sh@db/plants'}", "put it into postgres.passwordSecret"},
		{postgres + "postgres: {url: 'postgres://u@db/plants?password=hush'}", "put it into postgres.passwordSecret"},
		{postgres + "postgres: {url: 'postgres://u@db/plants', replicas: 0}", "at '/postgres/replicas'"},
		{image + "tls: {secret: ''}", "set tls.enabled to false"},
		{image + "tls: {enabled: 'no'}", "at '/tls/enabled'"},
		{image + "settings: {db: other.db}", "settings.db is set by the chart"},
		{image + "settings: {tls: {cert: x}}", "at '/settings/tls'"},
		{image + "env: {PLANTSTORE_DB: other.db}", "env.PLANTSTORE_DB: use settings"},
		{image + "env: {PGPASSWORD: hush}", "env.PGPASSWORD may have a secret"},
		{image + "env: {AWS_SECRET_ACCESS_KEY: hush}", "env.AWS_SECRET_ACCESS_KEY may have a secret"},
		{image + "env: {GOGC: 200}", "at '/env/GOGC'"},
		{image + "secrets: [../etc]", "at '/secrets/0'"},
		{image + "serviceMonitor: {enabled: true}", "serviceMonitor.tokenSecret is empty"},
		{image + "serviceMonitor: {enabled: true, tokenSecret: t}", "networkPolicy.admin is empty"},
		{image + "networkPolicy: {admin: [{podSelektor: {}}]}", "at '/networkPolicy/admin/0'"},
		{"image: {repository: 'r@sha256:1'}", "at '/image/repository'"},
		{"image: {repository: r, digest: '123'}", "at '/image/digest'"},
	} {
		_, err := render(t, "plantstore", tt.values)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.values, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the message has the password: %v", err)
		}
	}
}

// TestKubernetesVersions checks the versions of Kubernetes that the chart accepts.
func TestKubernetesVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.29.9": false, "v1.30.0": true, "v1.36.2": true, "v1.34.1-eks-3025e55": true,
	} {
		if got := chartutil.IsCompatibleRange(loadChart(t).Metadata.KubeVersion, version); got != want {
			t.Errorf("Kubernetes %s: accepted: %t, want %t", version, got, want)
		}
	}
}

// TestVersion checks that the chart has the version of the program.
func TestVersion(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), buildProgram(t), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	metadata := loadChart(t).Metadata
	if words := strings.Fields(string(out)); !slices.Contains(words, metadata.AppVersion) ||
		metadata.Version != metadata.AppVersion {
		t.Errorf("the chart has the versions %s and %s; the program prints %s", metadata.Version, metadata.AppVersion, out)
	}
}
