package backup

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/safefile"
)

// TestScratchOfKilledDrill shows that the next start and the next drill remove the directory of a killed drill, and no
// other file.
func TestScratchOfKilledDrill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	left := r.scratch
	other := filepath.Join(r.config.Scratch, "plantstore-scratch-other")
	backup := r.nameAt(-time.Hour)
	r.copyAs(backup)
	for name, remove := range map[string]func(){
		"start": r.removeScratch,
		"drill": func() {
			if j := r.end(r.Drill(t.Context(), backup, admin)); j.Error != "" {
				t.Error(j.Error)
			}
		},
	} {
		for _, dir := range []string{left, other} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(left, "restored.db"), []byte("plants"), 0o600); err != nil {
			t.Fatal(err)
		}
		remove()
		if lines := r.log.newLines(t); len(lines) > 0 {
			t.Errorf("%s: log %v", name, lines)
		}
		if fileExists(t, left) || !fileExists(t, other) {
			t.Errorf("%s: the directory is left, or another one is removed", name)
		}
	}
}

func fileExists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestFreeSpace compares the metric with the free space of the backup directory.
func TestFreeSpace(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, t.TempDir(), Config{Destination: t.TempDir()})
	free := func() float64 {
		families, err := r.config.Metrics.(*prometheus.Registry).Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "plantstore_backup_disk_free_bytes" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no metric")
		return 0
	}
	want, err := safefile.FreeBytes(r.config.Destination)
	if err != nil {
		t.Fatal(err)
	}
	if got := free(); got < float64(want)/2 || got > float64(want)*2 { // others use the disk
		t.Errorf("got %v, want about %d", got, want)
	}
	if err := os.Remove(r.config.Destination); err != nil {
		t.Fatal(err)
	}
	if got := free(); !math.IsNaN(got) {
		t.Errorf("without the directory: got %v, want NaN", got)
	}
}
