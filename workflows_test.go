package plantstore_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is a workflow of a forge, in the form of GitHub Actions.
type workflow struct {
	On          any               `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `yaml:"permissions"`
		Timeout     int               `yaml:"timeout-minutes"`
		Container   struct {
			Options string `yaml:"options"`
		} `yaml:"container"`
		Steps []struct {
			Uses string         `yaml:"uses"`
			Run  string         `yaml:"run"`
			With map[string]any `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// pinned matches an action with the commit of a release.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)

// TestWorkflows checks the rights of the workflows: a pull request of a stranger runs them.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no workflow: %v", err)
	}
	for _, path := range paths {
		for _, fault := range workflowFaults(t, read(t, path)) {
			t.Errorf("%s: %s", path, fault)
		}
	}
	text := read(t, ".github/workflows/check.yml")
	for name, replace := range map[string][2]string{
		"default rights":    {"permissions: {}\n", ""},
		"right to write":    {"contents: read", "contents: write"},
		"no rights of jobs": {"    permissions:\n      contents: read\n", ""},
		"other right":       {"contents: read", "packages: read"},
		"tag of an action":  {"@df4cb1c069e1874edd31b4311f1884172cec0e10 # v6.0.3", "@v6"},
		"kept credential":   {"persist-credentials: false", "persist-credentials: true"},
		"cache":             {"cache: false", "cache: true"},
		"expression":        {"run: .ci/run", "run: echo ${{ github.head_ref }}"},
		"trigger":           {"  pull_request:", "  pull_request_target:"},
		"no time limit":     {"timeout-minutes: 90", "continue-on-error: true"},
		"privileged":        {"${{ github.event_name != 'pull_request' && '--privileged' || '' }}", "--privileged"},
	} {
		changed := strings.ReplaceAll(text, replace[0], replace[1])
		if changed == text || len(workflowFaults(t, changed)) == 0 {
			t.Errorf("%s: found no fault in the changed workflow", name)
		}
	}
}

// workflowFaults returns the rules that a workflow breaks.
func workflowFaults(t *testing.T, text string) (faults []string) {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if w.Permissions == nil || len(w.Permissions) > 0 {
		faults = append(faults, "begin with permissions: {}")
	}
	if on := fmt.Sprint(w.On); strings.Contains(on, "pull_request_target") || strings.Contains(on, "workflow_run") {
		faults = append(faults, "a trigger runs code of a pull request with the rights of the repository")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		job := w.Jobs[name]
		if !maps.Equal(job.Permissions, map[string]string{"contents": "read"}) {
			faults = append(faults, name+" needs the permissions contents: read, and no other")
		}
		if job.Timeout == 0 {
			faults = append(faults, name+" has no timeout-minutes")
		}
		if options := strings.TrimSpace(job.Container.Options); options != "" &&
			options != "${{ github.event_name != 'pull_request' && '--privileged' || '' }}" {
			faults = append(faults, name+" gives its container rights in a pull request: "+options)
		}
		for _, step := range job.Steps {
			faults = append(faults, stepFaults(name, step.Uses, step.Run, step.With)...)
		}
	}
	return faults
}

// stepFaults returns the rules that a step of a job breaks.
func stepFaults(job, uses, run string, with map[string]any) (faults []string) {
	if strings.Contains(run, "${{") {
		faults = append(faults, job+": pass the expression by env, because its value could be a command: "+run)
	}
	if uses != "" && !pinned.MatchString(uses) {
		faults = append(faults, job+": pin this action by the commit of a release: "+uses)
	}
	action, _, _ := strings.Cut(uses, "@")
	for name, input := range map[string]string{"actions/checkout": "persist-credentials", "actions/setup-go": "cache"} {
		if action == name && with[input] != false {
			faults = append(faults, fmt.Sprintf("%s: %s needs %s: false", job, name, input))
		}
	}
	return faults
}
