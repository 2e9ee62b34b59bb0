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
