package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const (
	orderRandom    = "random"
	orderAscending = "ascending"
)

// madeStore is a store of made plants, as a file that runs copy and begin on.
// The zero value is no store.
type madeStore struct {
	path  string
	rows  int64
	bytes int64 // on disk
}

// store returns the store of n made plants in that order of ids, which it
// makes by an import if it is not there.
func (b *bench) store(ctx context.Context, order string, n int64) (madeStore, error) {
	if n == 0 {
		return madeStore{}, nil
	}
	s := madeStore{path: filepath.Join(b.stores, fmt.Sprintf("%s-%d.db", order, n)), rows: n}
	if _, err := os.Stat(s.path); err != nil {
		if err := b.importMade(ctx, order, n, s.path); err != nil {
			return s, err
		}
	}
	counted, err := countFile(ctx, s.path)
	if err == nil && counted != n {
		err = fmt.Errorf("%s holds %d plants and should hold %d: remove it", filepath.Base(s.path), counted, n)
	}
	if err != nil {
		return s, err
	}
	s.bytes, err = diskBytes(s.path)
	return s, err
}

// copyTo copies the store to where a run begins on it.
func (s madeStore) copyTo(ctx context.Context, path string) error {
	if s.path == "" {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "cp", "--reflink=auto", s.path, path).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the store: %w: %s", err, out)
	}
	return nil
}

// writeMade writes n made plants as CSV, with the ids of load.lua's stream of
// made rows.
func writeMade(path, order string, n int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	ids := madeIDs(order)
	line := []byte("id,name,tag\n")
	for i := range n {
		if _, err := w.Write(line); err != nil {
			return err
		}
		line = strconv.AppendInt(line[:0], ids(), 10)
		line = append(line, ",made "...)
		line = strconv.AppendInt(line, i+1, 10)
		line = append(line, ",made\n"...)
	}
	if _, err := w.Write(line); err != nil {
		return err
	}
	return w.Flush()
}

// madeIDs returns what returns the next id.
func madeIDs(order string) func() int64 {
	if order == orderAscending {
		id := firstID
		return func() int64 {
			id++
			return id
		}
	}
	x := uint32(1)
	return func() int64 {
		x = x*1664525 + 1013904223 // takes every value once, see load.lua
		return firstID + int64(x)<<20 + streamMade<<8
	}
}
