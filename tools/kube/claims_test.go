package kube

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// selects reports whether a selector selects objects with these labels.
func selects(t *testing.T, selector *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return !parsed.Empty() && parsed.Matches(labels.Set(set))
}

// TestSelectors checks that each selector of a release selects its pods, also those of an older version of the program,
// and those of no other release.
func TestSelectors(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *release) {
		own := r.template().Labels
		older, other := maps.Clone(own), maps.Clone(own)
		older["app.kubernetes.io/version"] = "0.9.0"
		other["app.kubernetes.io/instance"] = "other"
		selectors := map[string]*metav1.LabelSelector{"NetworkPolicy": &r.policy.Spec.PodSelector}
		if r.statefulSet != nil {
			selectors["StatefulSet"] = r.statefulSet.Spec.Selector
		} else {
			selectors["Deployment"] = r.deployment.Spec.Selector
			selectors["PodDisruptionBudget"] = r.budget.Spec.Selector
		}
		for _, service := range r.services {
			selectors["Service "+service.Name] = &metav1.LabelSelector{MatchLabels: service.Spec.Selector}
		}
		for i, spread := range r.template().Spec.TopologySpreadConstraints {
			selectors["spread over "+spread.TopologyKey+string(rune('0'+i))] = spread.LabelSelector
		}
		for name, selector := range selectors {
			if !selects(t, selector, own) || !selects(t, selector, older) || selects(t, selector, other) {
				t.Errorf("%s selects %v; want only the pods %v", name, selector, own)
			}
		}
		if r.monitor == nil {
			return
		}
		for _, service := range r.services {
			admin := strings.HasSuffix(service.Name, "-admin")
			if got := selects(t, &r.monitor.Spec.Selector, service.Labels); got != admin {
				t.Errorf("the ServiceMonitor selects the Service %s: %t", service.Name, got)
			}
			if !slices.Contains(slices.Collect(maps.Keys(service.Labels)), r.monitor.Spec.JobLabel) {
				t.Errorf("the Service %s has no label %s", service.Name, r.monitor.Spec.JobLabel)
			}
		}
	})
}

// TestPorts checks that every port that an object names is a port of the container, and that the NetworkPolicy admits
// it.
func TestPorts(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *release) {
		container := r.container(t)
		admitted := map[string][]int{} // ports of the container to the number of peers of each rule; no peer is every peer
		for _, rule := range r.policy.Spec.Ingress {
			for _, port := range rule.Ports {
				admitted[port.Port.String()] = append(admitted[port.Port.String()], len(rule.From))
			}
		}
		isPort := func(from string, port intstr.IntOrString) {
			if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.String() }) {
				t.Errorf("%s names the port %s; the container has %v", from, port.String(), container.Ports)
			}
		}
		for name, probe := range map[string]*corev1.Probe{
			"startupProbe": container.StartupProbe, "readinessProbe": container.ReadinessProbe,
			"livenessProbe": container.LivenessProbe,
		} {
			isPort(name, probe.HTTPGet.Port)
		}
		for _, service := range r.services {
			for _, port := range service.Spec.Ports {
				isPort("Service "+service.Name, port.TargetPort)
			}
		}
		for name := range admitted {
			isPort("NetworkPolicy", intstr.FromString(name))
		}
		if len(admitted["public"]) != 1 {
			t.Errorf("the NetworkPolicy admits %v, want the public port once", admitted)
		}
		if peers := admitted["admin"]; slices.Contains(peers, 0) || r.monitor != nil && len(peers) == 0 {
			t.Errorf("the NetworkPolicy admits %v to the admin port; want named peers", peers)
		}
		if r.monitor != nil && r.monitor.Spec.Endpoints[0].Port != "admin" {
			t.Errorf("the ServiceMonitor reads %q", r.monitor.Spec.Endpoints[0].Port)
		}
	})
}

// TestReferences checks that every volume is mounted, every mount has a volume, and every name that an object refers to
// is an object of the release, or a Secret of the values.
func TestReferences(t *testing.T) {
	given := []string{
		"plantstore-tls", "plants-example", "plantstore-postgres", "plantstore-postgres-ca", "plantstore-webhook", "other",
		"123", "0123", "null", "plantstore-s3",
	}
	eachRelease(t, func(t *testing.T, r *release) {
		spec, container := &r.template().Spec, r.container(t)
		var mounted, volumes []string
		for _, mount := range container.VolumeMounts {
			mounted = append(mounted, mount.Name)
			if mount.ReadOnly != (mount.Name != "data") || mount.SubPath != "" {
				t.Errorf("mount %+v; want all but data read-only, and no subPath, which never changes", mount)
			}
		}
		for _, volume := range spec.Volumes {
			volumes = append(volumes, volume.Name)
			switch {
			case volume.ConfigMap != nil:
				if volume.ConfigMap.Name != r.config.Name {
					t.Errorf("no ConfigMap %s", volume.ConfigMap.Name)
				}
			case volume.PersistentVolumeClaim != nil:
				if volume.PersistentVolumeClaim.ClaimName != r.claim.Name {
					t.Errorf("no claim %s", volume.PersistentVolumeClaim.ClaimName)
				}
			case volume.Secret != nil:
				if !slices.Contains(given, volume.Secret.SecretName) || *volume.Secret.DefaultMode != 0o440 {
					t.Errorf("Secret %+v; want one of the values with the mode 0440", volume.Secret)
				}
			default:
				t.Errorf("volume %+v", volume)
			}
		}
		if r.statefulSet != nil {
			for _, claim := range r.statefulSet.Spec.VolumeClaimTemplates {
				volumes = append(volumes, claim.Name)
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(mounted)), slices.Sorted(slices.Values(volumes))) {
			t.Errorf("mounts %v, volumes %v", mounted, volumes)
		}
		if spec.ServiceAccountName != r.account.Name {
			t.Errorf("no service account %s", spec.ServiceAccountName)
		}
		for _, variable := range container.Env {
			const index = "metadata.labels['apps.kubernetes.io/pod-index']"
			if from := variable.ValueFrom; from != nil && (from.FieldRef == nil || from.FieldRef.FieldPath != index) {
				t.Errorf("%s has its value from a Secret or a ConfigMap; want a file", variable.Name)
			}
		}
	})
}

// TestStores checks the objects of each store.
func TestStores(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *release) {
		container, grace := r.container(t), *r.template().Spec.TerminationGracePeriodSeconds
		var sleep int64
		if r.statefulSet != nil {
			set := r.statefulSet
			pods, claims := int(*set.Spec.Replicas), len(set.Spec.VolumeClaimTemplates)
			standby := pods == 2 && claims == 1 && r.claim == nil &&
				set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement &&
				set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
			if r.deployment != nil || r.budget != nil || !standby && (pods != 1 || claims != 0) {
				t.Errorf("the embedded store has more than one pod or one volume: %+v", set.Spec)
			}
			if !slices.ContainsFunc(r.services, func(s *corev1.Service) bool { return s.Name == set.Spec.ServiceName }) {
				t.Errorf("no Service %s", set.Spec.ServiceName)
			}
			if r.claim != nil && r.claim.Annotations["helm.sh/resource-policy"] != "keep" {
				t.Error("helm uninstall removes the plants")
			}
		} else {
			if r.claim != nil || *r.deployment.Spec.Replicas < 3 || r.budget.Spec.MaxUnavailable.IntValue() != 1 {
				t.Errorf("got the claim %v, %d replicas, budget %+v", r.claim, *r.deployment.Spec.Replicas, r.budget.Spec)
			}
			sleep = container.Lifecycle.PreStop.Sleep.Seconds
		}
		const shutdown = 10 // docs/reference/configuration.md#shutdown
		if grace < sleep+shutdown+5 {
			t.Errorf("a grace period of %d s; want more than %d + %d s", grace, sleep, shutdown)
		}
	})
}

// TestSettingsRestartThePods checks that a change of a setting changes the template of the pods, and that the same
// values do not.
func TestSettingsRestartThePods(t *testing.T) {
	hash := func(text string) string {
		template := decode(t, manifests(t, "plantstore", text)).template()
		return template.Annotations["checksum/settings"]
	}
	one := values["embedded"] + "settings: {log-format: json, body-max: 1KiB}"
	other := values["embedded"] + "settings: {log-format: json, body-max: 2KiB}"
	first, again, changed := hash(one), hash(one), hash(other)
	if first == "" || first != again || first == changed {
		t.Errorf("got %q, %q for the same settings, and %q for others", first, again, changed)
	}
}

// environment returns the variables of a container, over those of the image. The index of the pod is the only field
// that a variable may have.
func environment(container *corev1.Container, index string) []string {
	env := []string{"PLANTSTORE_DB=/data/plantstore.db", "PLANTSTORE_LISTEN=:8080"} // tools/image/image.go
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			value = index
		}
		env = append(env, variable.Name+"="+value)
	}
	return env
}

// TestProgramAcceptsSettings runs plantstore config with the variables and the settings file of each container.
func TestProgramAcceptsSettings(t *testing.T) {
	path := buildProgram(t)
	want := map[string]map[string]string{
		"embedded": {"db": "/data/plantstore.db", "listen": ":8080", "log-format": "json", "insecure-listen": "false"},
		"postgres": {"db": "postgres://plants_server@db.example/plants", "tls-cert": "/etc/plantstore/tls/tls.crt"},
		"plain":    {"insecure-listen": "true", "tls-cert": ""},
		"all": {
			"connections-per-address": "1000000", "trusted-proxies": `["10.0.0.0/8","2001:db8::/32"]`,
			"webhook-url": `["https://hooks.example/plants"]`,
		},
	}
	for name, text := range values {
		t.Run(name, func(t *testing.T) {
			r := decode(t, manifests(t, "plantstore", text))
			container := r.container(t)
			if !slices.Equal(container.Args, []string{"serve"}) || len(container.Command) != 0 {
				t.Errorf("the container runs %q %q", container.Command, container.Args)
			}
			file := filepath.Join(t.TempDir(), "plantstore.yaml")
			if err := os.WriteFile(file, []byte(r.config.Data["plantstore.yaml"]), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), path, "config")
			command.Env = append(environment(container, "0"), "PLANTSTORE_CONFIG="+file, "HOME="+t.TempDir())
			var stderr bytes.Buffer
			command.Stderr = &stderr
			out, err := command.Output()
			if err != nil {
				t.Fatalf("plantstore config: %v: %s", err, stderr.Bytes())
			}
			var got map[string]json.RawMessage
			if err := yaml.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			for key, value := range want[name] {
				if text := strings.Trim(string(got[key]), `"`); text != value {
					t.Errorf("%s is %q, want %q", key, text, value)
				}
			}
		})
	}
}

// TestValuesAreUsed checks that a template uses each value of values.yaml.
func TestValuesAreUsed(t *testing.T) {
	loaded := loadChart(t)
	var templates strings.Builder
	for _, file := range loaded.Templates {
		templates.Write(file.Data)
	}
	for name, value := range loaded.Values {
		group, isGroup := value.(map[string]any)
		if !isGroup || len(group) == 0 || name == "settings" || name == "resources" {
			group = map[string]any{"": nil}
		}
		for key := range group {
			path := strings.TrimSuffix(".Values."+name+"."+key, ".")
			short := strings.TrimPrefix(path, ".Values") // after {{- $image := .Values.image }}
			if !strings.Contains(templates.String(), path) && !strings.Contains(templates.String(), "$"+short[1:]) {
				t.Errorf("no template uses %s", path)
			}
		}
	}
}
