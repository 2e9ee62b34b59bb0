package main

import (
	"strings"
	"testing"
)

// TestFileDetail tests that the entry of a command has the absolute path of a file, and no secret in place of a path.
func TestFileDetail(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"-": "-", "s3://bucket/a.db": "s3://bucket/a.db", "/a.db": "/a.db"} {
		if got := fileDetail(path).Value; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := fileDetail("a.db").Value; !strings.HasPrefix(got, "/") || !strings.HasSuffix(got, "/a.db") {
		t.Errorf("a.db: got %q, want an absolute path", got)
	}
	if got := fileDetail("pst_canary").Value; strings.Contains(got, "canary") {
		t.Errorf("a secret: got %q", got)
	}
}
