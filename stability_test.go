package plantstore_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stableList has a line for each name that docs/reference/stability.md covers: the version that introduced it, and the
// promise. Lines of released versions stay until the first number of the version changes.
const stableList = "docs/reference/stable.txt"

var updateStable = flag.Bool("update", false, "write "+stableList)

// programVersion matches the version of the program, without -dev.
var programVersion = regexp.MustCompile(`const version = "([^"-]+)`)

// TestStable compares the list with the pages that are generated from the program, with the API documents and with the
// sources of the Go client.
func TestStable(t *testing.T) {
	t.Parallel()
	version := programVersion.FindStringSubmatch(read(t, "cmd/plantstore/version.go"))[1]
	list := parseStable(t, read(t, stableList))
	promises := slices.Concat(
		errorPromises(t), settingPromises(t), metricPromises(t), commandPromises(t), jsonPromises(t), exitCodePromises(t),
		routePromises(t), webhookPromises(t), clientPromises(t),
		documentPromises(t, "public", "internal/server/openapi.yaml"),
		documentPromises(t, "admin", "internal/adminapi/openapi.yaml"),
	)
	if *updateStable {
		writeStable(t, updatedStable(list, promises, version))
		return
	}
	for _, fault := range compareStable(list, promises, version) {
		t.Error(fault)
	}
}

// TestStableControls checks that the comparison reports a removed and a new promise, and the result of an update.
func TestStableControls(t *testing.T) {
	t.Parallel()
	list := map[string]string{"error 40001": "1.0.0", "error 40002": "1.1.0"}
	for name, c := range map[string]struct {
		promises []string
		faults   int
		updated  map[string]string
	}{
		"equal":      {[]string{"error 40001", "error 40002"}, 0, list},
		"released":   {[]string{"error 40002"}, 1, list},
		"unreleased": {[]string{"error 40001"}, 1, map[string]string{"error 40001": "1.0.0"}},
		"new": {
			[]string{"error 40001", "error 40002", "error 40003"},
			1,
			map[string]string{"error 40001": "1.0.0", "error 40002": "1.1.0", "error 40003": "1.1.0"},
		},
	} {
		if got := compareStable(list, c.promises, "1.1.0"); len(got) != c.faults {
			t.Errorf("%s: got %q; want %d faults", name, got, c.faults)
		}
		if got := updatedStable(list, c.promises, "1.1.0"); !maps.Equal(got, c.updated) {
			t.Errorf("%s: an update writes %v; want %v", name, got, c.updated)
		}
	}
}

// compareStable returns the differences between the list, by promise, and the promises of the program.
func compareStable(list map[string]string, promises []string, version string) (faults []string) {
	const update = "run: go test . -run TestStable -update"
	for _, promise := range slices.Sorted(maps.Keys(list)) {
		switch since := list[promise]; {
		case slices.Contains(promises, promise):
		case since == version:
			faults = append(faults, fmt.Sprintf("%s has %q, which the program has no more; %s", stableList, promise, update))
		default:
			faults = append(faults, fmt.Sprintf(
				"%q is stable since %s; restore it, or change the first number of the version", promise, since))
		}
	}
	for _, promise := range promises {
		if _, ok := list[promise]; !ok {
			faults = append(faults, fmt.Sprintf("%s lacks %q, which will be stable from %s on; %s",
				stableList, promise, version, update))
		}
	}
	return faults
}

// updatedStable returns the list with the promises of this version. Lines of other versions stay.
func updatedStable(list map[string]string, promises []string, version string) map[string]string {
	updated := maps.Clone(list)
	maps.DeleteFunc(updated, func(_, since string) bool { return since == version })
	for _, promise := range promises {
		if _, ok := updated[promise]; !ok {
			updated[promise] = version
		}
	}
	return updated
}

// parseStable returns the version of each promise of the list.
func parseStable(t *testing.T, text string) map[string]string {
	t.Helper()
	list := map[string]string{}
	for line := range strings.Lines(text) {
		version, promise, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || list[promise] != "" {
			t.Fatalf("%s: the line %q has no version, or is there twice", stableList, line)
		}
		list[promise] = version
	}
	return list
}

func writeStable(t *testing.T, list map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, promise := range slices.Sorted(maps.Keys(list)) {
		fmt.Fprintln(&b, list[promise], promise)
	}
	if err := os.WriteFile(stableList, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
