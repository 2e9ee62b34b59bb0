package kube

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// accepted are the checks of kube-score that the chart does not pass, with the reason.
var accepted = map[string]string{
	"container-image-pull-policy": "a tag of a release never changes; with Always, a pod needs the registry to start",
	"pod-networkpolicy": "TestPorts checks the ingress; the egress depends on the settings: database, issuer, " +
		"receivers of webhooks, bucket, collector",
	"deployment-has-host-podantiaffinity":  "topologySpreadConstraints spreads the pods over the hosts",
	"statefulset-has-host-podantiaffinity": "topologySpreadConstraints spreads the pods over the hosts",
	"statefulset-has-poddisruptionbudget": "a standby is never ready, so a budget would never let a drain evict the " +
		"owner; the standby takes over from it",
}

// TestScore runs kube-score over the objects of every set of values.
func TestScore(t *testing.T) {
	args := []string{
		"tool", "-modfile=../kubescore.mod", "kube-score", "score", "--output-format", "ci",
		// A CPU limit stops the server for parts of each period, in the middle of a commit.
		"--ignore-container-cpu-limit",
	}
	for name := range accepted {
		args = append(args, "--ignore-test", name)
	}
	for name, text := range values {
		score := exec.CommandContext(t.Context(), "go", append(slices.Clone(args), "-")...)
		score.Stdin = strings.NewReader(strings.Join(manifests(t, "plantstore", text), "---\n"))
		var progress strings.Builder // the go command names the modules that it downloads
		score.Stderr = &progress
		out, err := score.Output()
		passed := 0
		for line := range strings.Lines(string(out)) {
			switch {
			case strings.HasPrefix(line, "[OK]"):
				passed++
			case !strings.HasPrefix(line, "[SKIPPED]"):
				t.Errorf("%s: %s", name, line)
			}
		}
		if err != nil || passed < 20 {
			t.Errorf("%s: kube-score: %v; %d checks passed, want more than 20\n%s", name, err, passed, &progress)
		}
	}
}
