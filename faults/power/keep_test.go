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

// The files of a kept image.
const keptDisk, keptWanted = "disk.ext4", "wanted.json"

const keptMax = 5 // with the first ones it can be found what is wrong

// keep writes a disk and what must be on it into a new directory.
func (s *totals) keep(t *testing.T, d *disk, w wanted) {
	t.Helper()
	if s.kept++; s.kept > keptMax || *keptFlag != "" {
		return
	}
	dir, err := os.MkdirTemp("", "plantstore-power-") // is to outlive the test
	if err != nil {
		t.Fatal(err)
	}
	if err := writeKept(dir, d, w); err != nil {
		t.Fatalf("keep the image: %v", err)
	}
	t.Logf("look at the image again with -kept %s", dir)
}

func writeKept(dir string, d *disk, w wanted) (err error) {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, keptWanted), text, 0o600); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, keptDisk))
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

func readKept(dir string) (*disk, wanted, error) {
	var w wanted
	text, err := os.ReadFile(filepath.Join(dir, keptWanted))
	if err != nil {
		return nil, w, err
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, w, fmt.Errorf("%s: %w", keptWanted, err)
	}
	f, err := os.Open(filepath.Join(dir, keptDisk))
	if err != nil {
		return nil, w, err
	}
	defer f.Close()
	d := newDisk()
	for i := range d.blocks {
		d.blocks[i] = make([]byte, blockBytes)
		if _, err := io.ReadFull(f, d.blocks[i]); err != nil {
			return nil, w, fmt.Errorf("%s: %w", keptDisk, err)
		}
	}
	return d, w, nil
}

// TestKept looks again at an image that was kept.
func TestKept(t *testing.T) {
	if *keptFlag == "" {
		t.Skip("no -kept")
	}
	b := newBench(t)
	d, w, err := readKept(*keptFlag)
	if err != nil {
		t.Fatal(err)
	}
	for number := range startEach { // in each way in which a store is looked at
		t.Run(fmt.Sprintf("way%d", number), func(t *testing.T) { b.judge(t, d, w, number, &totals{}) })
	}
}

// TestKeepReads reads what was kept: a fault must not be the first to try it.
func TestKeepReads(t *testing.T) {
	d, w, dir := newDisk(), wanted{Acked: map[int64]bool{7: true}, Sent: map[int64]string{7: "a", 8: "b"}}, t.TempDir()
	d.blocks[3] = bytes.Repeat([]byte{5}, blockBytes)
	if err := writeKept(dir, d, w); err != nil {
		t.Fatal(err)
	}
	again, wAgain, err := readKept(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(w, wAgain) {
		t.Errorf("got %v, want %v", wAgain, w)
	}
	if !bytes.Equal(again.blocks[3], d.blocks[3]) || !bytes.Equal(again.blocks[4], make([]byte, blockBytes)) {
		t.Error("the blocks are not those that were kept")
	}
}
