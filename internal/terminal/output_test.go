package terminal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOutputRace creates the file of an output during the write: Publish does not replace it.
func TestOutputRace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.csv")
	out, err := CreateOutput(t.Context(), path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte("ours")); err != nil {
		t.Fatal(err)
	}
	if err := out.Publish(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if err := out.Discard(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "theirs" {
		t.Errorf("the file has %q (%v), want it unchanged", text, err)
	}
}

// TestOutputForeignPipe tries to write to a FIFO of another user.
func TestOutputForeignPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.csv")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	const anotherUser = 12345
	if err := os.Chown(path, anotherUser, anotherUser); err != nil {
		t.Skipf("only root can change the owner of a FIFO: %v", err)
	}
	const want = "it is a FIFO or a device of another user; name a file"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CreateOutput(ended, path, true); err == nil || err.Error() != want {
		t.Errorf("without a reader: got %v, want %s", err, want)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := CreateOutput(t.Context(), path, true); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestOutputDevice opens a device whose owner may be unknown in a container, and creates no file in /dev.
func TestOutputDevice(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]error{
		"/dev/null": nil, "/dev//null": nil, "/dev/plantstore-missing": fs.ErrNotExist,
	} {
		out, err := CreateOutput(t.Context(), path, true)
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
		if err == nil {
			if err := errors.Join(out.Publish(), out.Discard()); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&fs.ModeDevice == 0 {
		t.Errorf("/dev/null: got %v, %v", info, err)
	}
	if err := os.Remove("/dev/plantstore-missing"); err == nil {
		t.Error("a file was created in /dev")
	}
}
