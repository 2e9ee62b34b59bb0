package main

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plantstore/internal/s3/s3test"
)

// TestRestoreOfCutDownload restores a backup over connections that break. A restore that cannot continue changes no
// file, and leaves none. A restore that can continue is complete.
func TestRestoreOfCutDownload(t *testing.T) {
	t.Parallel()
	s, environ := newBucket(t)
	proxy, err := s3test.NewProxy(t.Context(), s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	dir := t.TempDir()
	run := func(environ []string, code int, want, line string) {
		t.Helper()
		got, stdout, stderr := runIn(t, dir, environ, strings.Fields(line)...)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: got %d, %s%s, want %d and %q", line, got, stdout, stderr, code, want)
		}
	}
	const plants = 5000 // of 12 MB
	var file strings.Builder
	file.WriteString("id,name\n")
	for i := range plants {
		fmt.Fprintf(&file, "%d,%s\n", i, strings.Repeat("rosa", 600))
	}
	writeFileText(t, filepath.Join(dir, "plants.csv"), file.String())
	run(environ, exitOK, "", "import plants.csv --create --db a.db")
	run(environ, exitOK, "", "backup s3://nursery-backups/a.db --db a.db")
	run(environ, exitOK, "", "token create shop --no-expiry --create --db old.db")

	broken := append(environ, "AWS_ENDPOINT_URL="+proxy.Endpoint)
	before := filesIn(t, dir)
	proxy.CutResponses(256 << 10)
	const fault = "no response of the S3 server "
	run(broken, exitFailure, fault, "restore s3://nursery-backups/a.db --db new.db")
	run(broken, exitFailure, fault, "restore s3://nursery-backups/a.db --db old.db --force")
	if after := filesIn(t, dir); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("the files before: %q; after, with other names or contents: %q",
			slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	proxy.CutResponses(4 << 20)
	opened := proxy.Opened()
	want := fmt.Sprintf("has the %d plants of ", plants)
	run(broken, exitOK, "new.db "+want, "restore s3://nursery-backups/a.db --db new.db")
	run(broken, exitOK, "old.db "+want, "restore s3://nursery-backups/a.db --db old.db --force")
	if n := proxy.Opened() - opened; n < 4 {
		t.Errorf("the restores opened %d connections, so none broke", n)
	}
	run(environ, exitOK, "", "verify new.db")
}
