package kube

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

const composeDir = repository + "/deploy/compose"

// project loads the compose file as Docker Compose does, with an empty environment. Unknown members are errors.
func project(t *testing.T) *types.Project {
	t.Helper()
	content, err := os.ReadFile(composeDir + "/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(composeDir)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml"), Content: content}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// TestComposeServices checks the claims of docs/how-to/run-with-compose.md about every service.
func TestComposeServices(t *testing.T) {
	p := project(t)
	if got := p.ServiceNames(); !slices.Equal(got, []string{"grafana", "plantstore", "postgres", "prometheus"}) {
		t.Errorf("got the services %q", got)
	}
	pinned := regexp.MustCompile(`:v?\d+\.\d+(\.\d+)?(-dev)?$`)
	for name, service := range p.Services {
		if !pinned.MatchString(service.Image) {
			t.Errorf("%s has the image %s; want the tag of a release", name, service.Image)
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q; want loopback", name, port.Published, port.HostIP)
			}
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeVolume {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil || !volume.ReadOnly {
				t.Errorf("%s mounts %s: %v; read-only: %t", name, volume.Source, err, volume.ReadOnly)
			}
		}
		for key, value := range service.Environment {
			secret := regexp.MustCompile(`PASSWORD|SECRET|TOKEN|PASSFILE`).MatchString(key)
			file, isFile := strings.CutPrefix(*value, "/run/secrets/")
			if secret && (!isFile || !mounts(&service, file)) {
				t.Errorf("%s has %s=%s; want the path of a secret of the service", name, key, *value)
			}
		}
		if !slices.Contains(service.SecurityOpt, "no-new-privileges:true") || service.Restart != "unless-stopped" {
			t.Errorf("%s has security_opt %q and restart %q", name, service.SecurityOpt, service.Restart)
		}
	}
	for name, secret := range p.Secrets {
		if dir := filepath.Base(filepath.Dir(secret.File)); dir != "secrets" || filepath.Base(secret.File) != name {
			t.Errorf("the secret %s has the file %s", name, secret.File)
		}
	}
	ignored := exec.CommandContext(t.Context(), "git", "-C", composeDir, "check-ignore", "secrets/pgpass")
	if out, err := ignored.CombinedOutput(); err != nil {
		t.Errorf("git does not ignore the secrets: %v: %s", err, out)
	}
}

// mounts reports whether a service has a secret.
func mounts(service *types.ServiceConfig, secret string) bool {
	return slices.ContainsFunc(service.Secrets, func(s types.ServiceSecretConfig) bool { return s.Source == secret })
}

// TestComposeStore checks the service of Plant Store: the program accepts its variables, its container has the rights
// of the image's user, and PostgreSQL has only the network that they share.
func TestComposeStore(t *testing.T) {
	p := project(t)
	store, postgres := p.Services["plantstore"], p.Services["postgres"]
	if store.User != "65532:65532" || !store.ReadOnly || !slices.Equal(store.CapDrop, []string{"ALL"}) {
		t.Errorf("user %q, read-only %t, cap_drop %q", store.User, store.ReadOnly, store.CapDrop)
	}
	if store.DependsOn["postgres"].Condition != types.ServiceConditionHealthy || postgres.HealthCheck == nil {
		t.Errorf("plantstore starts after %+v", store.DependsOn)
	}
	if grace := store.StopGracePeriod.String(); grace != "15s" {
		t.Errorf("stop_grace_period %s; want more than the 10 s of a shutdown", grace)
	}
	if !p.Networks["database"].Internal || len(postgres.Networks) != 1 || len(postgres.Ports) != 0 {
		t.Errorf("PostgreSQL has the networks %v and the ports %v; want the internal one and none",
			postgres.Networks, postgres.Ports)
	}
	if _, err := os.Stat(filepath.Join(store.Build.Context, store.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	command := exec.CommandContext(t.Context(), buildProgram(t), "config")
	for key, value := range store.Environment {
		command.Env = append(command.Env, key+"="+*value)
	}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("plantstore config: %v: %s", err, out)
	}
	var got map[string]any
	if err := yaml.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	user, database := *postgres.Environment["POSTGRES_USER"], *postgres.Environment["POSTGRES_DB"]
	if want := "postgres://" + user + "@postgres/" + database + "?sslmode=disable"; got["db"] != want {
		t.Errorf("db is %v, want %s", got["db"], want)
	}
}

// TestComposePrometheus checks the configuration of Prometheus with promtool, and its target, token and rules.
func TestComposePrometheus(t *testing.T) {
	need(t, "promtool")
	p := project(t)
	prometheus, store := p.Services["prometheus"], p.Services["plantstore"]
	dir := t.TempDir()
	config, err := os.ReadFile(source(t, &prometheus, "/etc/prometheus/prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	const rules, token = "/etc/prometheus/plantstore.yml", "/run/secrets/prometheus-token"
	local := strings.NewReplacer(rules, source(t, &prometheus, rules), token, filepath.Join(dir, "token")).
		Replace(string(config))
	if strings.Contains(local, rules) || strings.Contains(local, token) || !mounts(&prometheus, filepath.Base(token)) {
		t.Errorf("the rules or the token are not those of the service:\n%s", config)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(local), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", path).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("1 rule files found")) {
		t.Errorf("promtool: %v: %s", err, out)
	}
	var parsed struct {
		Scrapes []struct {
			Job     string `json:"job_name"`
			Targets []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	scrape := parsed.Scrapes[0]
	want := *store.Environment["PLANTSTORE_ADMIN_HOST"] + *store.Environment["PLANTSTORE_ADMIN_LISTEN"]
	if scrape.Job != "plantstore" || scrape.Targets[0].Targets[0] != want || !strings.HasPrefix(want, store.Name+":") {
		t.Errorf("the job %s reads %v; want plantstore and %s", scrape.Job, scrape.Targets, want)
	}
	share(t, &prometheus, &store)
}

// source returns the file of the repository that a service mounts at a path.
func source(t *testing.T, service *types.ServiceConfig, target string) string {
	t.Helper()
	for _, volume := range service.Volumes {
		if volume.Target == target {
			return volume.Source
		}
	}
	t.Fatalf("%s mounts nothing at %s", service.Name, target)
	return ""
}

// share checks that two services have the network monitoring.
func share(t *testing.T, services ...*types.ServiceConfig) {
	t.Helper()
	for _, service := range services {
		if _, ok := service.Networks["monitoring"]; !ok {
			t.Errorf("%s is not on the network monitoring", service.Name)
		}
	}
}

// TestComposeGrafana checks that Grafana finds Prometheus and the dashboard.
func TestComposeGrafana(t *testing.T) {
	p := project(t)
	grafana, prometheus := p.Services["grafana"], p.Services["prometheus"]
	share(t, &grafana, &prometheus)
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool           `json:"isDefault"`
			JSONData                     map[string]any `json:"jsonData"`
		} `json:"datasources"`
	}
	var dashboards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name, Type     string
			AllowUIUpdates bool              `json:"allowUiUpdates"`
			Options        map[string]string `json:"options"`
		} `json:"providers"`
	}
	for kind, into := range map[string]any{"datasources": &sources, "dashboards": &dashboards} {
		text, err := os.ReadFile(source(t, &grafana, "/etc/grafana/provisioning/"+kind+"/plantstore.yml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if got := sources.Datasources[0]; got.URL != "http://prometheus:9090" || got.Type != "prometheus" || !got.IsDefault {
		t.Errorf("got the data source %+v", got)
	}
	want := dashboards.Providers[0].Options["path"] + "/plantstore.json"
	if path := source(t, &grafana, want); filepath.Base(filepath.Dir(path)) != "grafana" {
		t.Errorf("%s is %s", want, path)
	}
}
