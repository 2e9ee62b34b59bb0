package backup

import (
	"bufio"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// scratchVariable makes the test program create a scratch directory in the directory that it names, and wait.
const scratchVariable = "BACKUP_TEST_SCRATCH"

// holdScratch creates a scratch directory, prints its path and waits until standard input ends.
func holdScratch(parent string) {
	s, err := newScratch(parent)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(s.path, "restored.db"), []byte("plants"), 0o600); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(s.path + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// TestScratchOfKilledDrill kills a process with a scratch directory. The next start and the next drill remove that
// directory, and keep directories in use or of a process that has just begun, and other files.
func TestScratchOfKilledDrill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	parent := r.config.Scratch
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.CommandContext(t.Context(), self, "-test.run=^$")
	killed.Env = append(os.Environ(), scratchVariable+"="+parent)
	stdin, errIn := killed.StdinPipe()
	stdout, errOut := killed.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	defer stdin.Close()
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	path, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	path = path[:len(path)-1]
	inUse, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	young := filepath.Join(parent, ".plantstore-scratch-young")
	old := filepath.Join(parent, ".plantstore-scratch-old")
	for _, dir := range []string{young, old} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	day := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(old, day, day); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(parent, ".plantstore-scratch-file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := func(when string, removed ...string) {
		t.Helper()
		var log []string
		for _, dir := range removed {
			log = append(log, "INFO removed the scratch directory of a killed drill "+filepath.Base(dir))
		}
		if diff := cmp.Diff(log, r.log.newLines(t)); diff != "" {
			t.Errorf("%s: log, -want +got:\n%s", when, diff)
		}
	}
	r.removeScratch()
	want("while the process runs", old)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // killed
	if !fileExists(t, path) {
		t.Error("the process has left no directory")
	}
	r.removeScratch()
	want("after its end", path)
	if err := inUse.remove(); err != nil {
		t.Error(err)
	}
	for dir, exists := range map[string]bool{path: false, old: false, young: true, file: true, inUse.path: false} {
		if fileExists(t, dir) != exists {
			t.Errorf("%s exists: %t, want %t", dir, !exists, exists)
		}
	}
}

// TestScratchDuringRemoval creates scratch directories while another process would remove unused ones: it keeps the new
// ones.
func TestScratchDuringRemoval(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	stop, removed := make(chan struct{}), make(chan []string)
	go func() {
		var gone []string
		defer func() { removed <- gone }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			paths, _ := filepath.Glob(filepath.Join(parent, scratchPattern)) // the error is about the pattern
			for _, path := range paths {
				if _, err := removeUnused(path); err != nil {
					gone = append(gone, err.Error())
				}
			}
		}
	}()
	for range 1000 { // enough to fail each time if the removal can lock a new directory
		s, err := newScratch(parent)
		if err != nil {
			t.Error(err)
			break
		}
		if !fileExists(t, filepath.Join(s.path, scratchLock)) {
			t.Error("the directory has no lock")
		}
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if gone := <-removed; gone != nil {
		t.Error(gone)
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
	want, err := freeBytes(r.config.Destination)
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
