package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plantstore/internal/s3/s3test"
)

// TestStandbyPod runs the two pods of the StatefulSet and a bucket: the second pod is not ready, takes over when the
// first is killed, and has its plant. Then the first one is the standby, although its index is 0, and takes over when
// the second ends.
func TestStandbyPod(t *testing.T) {
	t.Parallel()
	if !inside(t) {
		return
	}
	bucket, err := s3test.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bucket.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := decode(t, manifests(t, "plantstore", values["standby"]))
	authority := newAuthority(t)
	cert := certificate(t, authority)
	keys := "[default]\naws_access_key_id = " + s3test.AccessKey + "\naws_secret_access_key = " + s3test.SecretKey + "\n"
	nodeFor := func(index string, template *corev1.PodTemplateSpec) *node {
		n := newNode(t, buildProgram(t), template)
		n.index = index
		n.settings(t, r)
		n.volume(t, "data")
		n.project(t, "tls", 0o440, cert)
		n.project(t, "secret-0", 0o440, map[string][]byte{"credentials": []byte(keys)})
		return n
	}
	firstTemplate, secondTemplate := r.template(), moved(r.template())
	firstNode, secondNode := nodeFor("0", firstTemplate), nodeFor("1", secondTemplate)
	firstContainer, secondContainer := &firstTemplate.Spec.Containers[0], &secondTemplate.Spec.Containers[0]
	endpoint := "AWS_ENDPOINT_URL=" + bucket.Endpoint
	follows := func(pod *running, container *corev1.Container) {
		t.Helper()
		until(t, pod, func() error { return probe(t, container, container.LivenessProbe) })
		if probe(t, container, container.ReadinessProbe) == nil {
			t.Error("both pods are ready")
		}
	}

	first := firstNode.start(t, firstTemplate, endpoint)
	first.ready(t, firstContainer)
	token := first.exec(t, "token", "create", "web-shop", "--expires", "90d")
	second := secondNode.start(t, secondTemplate, endpoint)
	follows(second, secondContainer)
	call := newCaller(authority.Pool())
	created, _ := call.create(t, token, fern)

	_ = first.signal(t, "KILL")
	second.ready(t, secondContainer)
	call.url = strings.Replace(call.url, ":8080", ":9080", 1)
	if got, replayed := call.create(t, token, fern); got != created || !replayed {
		t.Errorf("after the failover: got %s, replayed: %t; want %s again", got, replayed, created)
	}
	firstNode.shareFiles(t, "data")
	first = firstNode.start(t, firstTemplate, endpoint)
	follows(first, firstContainer)
	if err := probe(t, secondContainer, secondContainer.ReadinessProbe); err != nil {
		t.Errorf("the owner after the other pod has returned: %v", err)
	}

	if err := second.signal(t, "TERM"); err != nil { // as kubectl delete pod
		t.Errorf("SIGTERM: %v\n%s", err, second.stderr.String())
	}
	first.ready(t, firstContainer)
	call.url = strings.Replace(call.url, ":9080", ":8080", 1)
	if got, replayed := call.create(t, token, fern); got != created || !replayed {
		t.Errorf("after the switch back: got %s, replayed: %t; want %s again", got, replayed, created)
	}
}

// moved returns a template with other ports, because the pods of a test share an address.
func moved(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	second := template.DeepCopy()
	container := &second.Spec.Containers[0]
	for i := range container.Ports {
		container.Ports[i].ContainerPort += 1000
	}
	for i := range container.Env {
		if v := &container.Env[i]; strings.HasPrefix(v.Value, ":80") { // the addresses to listen on
			v.Value = ":90" + v.Value[len(":80"):]
		}
	}
	return second
}
