package main

import (
	"bufio"
	"context"
	"errors"
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

// generatedStore is a store of generated plants, in a file that runs copy. The zero
// value is an empty store.
type generatedStore struct {
	path  string
	rows  int64
	bytes int64 // on disk
}

// store returns the store of n generated plants with ids in that order. It creates
// a missing store by an import.
func (b *bench) store(ctx context.Context, order string, n int64) (generatedStore, error) {
	if n == 0 {
		return generatedStore{}, nil
	}
	s := generatedStore{path: filepath.Join(b.stores, fmt.Sprintf("%s-%d.db", order, n)), rows: n}
	if _, err := os.Stat(s.path); err != nil {
		if err := b.importGenerated(ctx, order, n, s.path); err != nil {
			return s, err
		}
	}
	counted, err := countFile(ctx, s.path)
	if err == nil && counted != n {
		err = fmt.Errorf("%s has %d plants, want %d; remove the file", filepath.Base(s.path), counted, n)
	}
	if err != nil {
		return s, err
	}
	s.bytes, err = diskBytes(s.path)
	return s, err
}

// databaseStore returns the data directory of a database with n generated plants. It creates
// a missing one by an import.
func (b *bench) databaseStore(ctx context.Context, order string, n int64) (path string, err error) {
	if n == 0 {
		return "", nil
	}
	path = filepath.Join(b.stores, fmt.Sprintf("%s-%d.pg", order, n))
	if fileExists(path) {
		return path, nil
	}
	dir, err := b.runDir()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	csv := filepath.Join(b.work, "generated.csv")
	defer os.Remove(csv)
	if err := writeGenerated(csv, order, n); err != nil {
		return "", err
	}
	db, err := b.cluster.start(ctx, place{}, filepath.Join(dir, "postgres"), "")
	if err != nil {
		return "", err
	}
	if err := errors.Join(b.importTo(ctx, db, csv, n), db.stop()); err != nil {
		return "", err
	}
	return path, os.Rename(filepath.Join(db.dir, "data"), path)
}

// importTo imports a file of n plants into an empty database, and leaves it as autovacuum would.
func (b *bench) importTo(ctx context.Context, db *database, csv string, n int64) error {
	b.log.Info("importing into PostgreSQL", "rows", n)
	command := exec.CommandContext(ctx, b.program(productName), "import", csv, "--json", "--create", "--db", db.storeURL())
	command.Env = cleanEnviron()
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if created, err := createdRows(out); err != nil || created != n {
		return errors.Join(err, fmt.Errorf("import created %d rows, want %d", created, n))
	}
	out, err = exec.CommandContext(ctx, filepath.Join(db.bin, "psql"), "-X", "-q", "-d", db.url(), "-c",
		"VACUUM ANALYZE plants").CombinedOutput()
	if err != nil {
		return fmt.Errorf("vacuum: %w: %s", err, out)
	}
	return nil
}

// copyTo copies the store to path, unless the store is empty.
func (s generatedStore) copyTo(ctx context.Context, path string) error {
	if s.path == "" {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "cp", "--reflink=auto", s.path, path).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the store: %w: %s", err, out)
	}
	return nil
}

// writeGenerated writes n plants as CSV, with the ids of stream streamGenerated.
func writeGenerated(path, order string, n int64) (err error) {
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
	ids := generatedIDs(order)
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

// generatedIDs returns a function that returns the next id.
func generatedIDs(order string) func() int64 {
	if order == orderAscending {
		id := firstID
		return func() int64 {
			id++
			return id
		}
	}
	x := uint32(1)
	return func() int64 {
		x = x*1664525 + 1013904223 // full period, see load.lua
		return firstID + int64(x)<<20 + streamGenerated<<8
	}
}
