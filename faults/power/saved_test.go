//go:build linux

package power

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// The files of a saved image.
const savedDisk, savedWanted = "disk.ext4", "wanted.json"

const savedMax = 5 // images of one test

// save writes a disk and its expected content into a new directory.
func (s *totals) save(t *testing.T, d *disk, w wanted) {
	t.Helper()
	if s.saved++; s.saved > savedMax || *keptFlag != "" {
		return
	}
	dir, err := os.MkdirTemp("", "plantstore-power-") // outlives the test
	if err != nil {
		t.Fatal(err)
	}
	if err := writeImage(dir, d, w); err != nil {
		t.Fatalf("save the image: %v", err)
	}
	t.Logf("check the image again with -kept %s", dir)
}

func writeImage(dir string, d *disk, w wanted) (err error) {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, savedWanted), text, 0o600); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, savedDisk))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(diskBytes); err != nil {
		return err
	}
	for i, b := range d.clone(false).blocks {
		if b == nil {
			continue
		}
		if _, err := f.WriteAt(b, int64(i)*blockBytes); err != nil {
			return err
		}
	}
	return nil
}

func readImage(dir string) (*disk, wanted, error) {
	var w wanted
	text, err := os.ReadFile(filepath.Join(dir, savedWanted))
	if err != nil {
		return nil, w, err
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, w, fmt.Errorf("%s: %w", savedWanted, err)
	}
	f, err := os.Open(filepath.Join(dir, savedDisk))
	if err != nil {
		return nil, w, err
	}
	defer f.Close()
	d := newDisk()
	for i := range d.blocks {
		d.blocks[i] = make([]byte, blockBytes)
		if _, err := io.ReadFull(f, d.blocks[i]); err != nil {
			return nil, w, fmt.Errorf("%s: %w", savedDisk, err)
		}
	}
	return d, w, nil
}

// TestKept checks a saved image again.
func TestKept(t *testing.T) {
	if *keptFlag == "" {
		t.Skip("no -kept")
	}
	b := newBench(t)
	d, w, err := readImage(*keptFlag)
	if err != nil {
		t.Fatal(err)
	}
	for number := range startEach { // each way of checking a store
		t.Run(fmt.Sprintf("way%d", number), func(t *testing.T) { b.checkImage(t, d, w, number, &totals{}) })
	}
}

// TestSaveAndRead saves an image and reads it back.
func TestSaveAndRead(t *testing.T) {
	d, dir := newDisk(), t.TempDir()
	w := wanted{7: {"a"}, 8: {"", "b"}}
	d.blocks[3] = bytes.Repeat([]byte{5}, blockBytes)
	if err := writeImage(dir, d, w); err != nil {
		t.Fatal(err)
	}
	again, wAgain, err := readImage(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(w, wAgain) {
		t.Errorf("got %v, want %v", wAgain, w)
	}
	if !bytes.Equal(again.blocks[3], d.blocks[3]) || !bytes.Equal(again.blocks[4], make([]byte, blockBytes)) {
		t.Error("the blocks differ from the saved ones")
	}
}
