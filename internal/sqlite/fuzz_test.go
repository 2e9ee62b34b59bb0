package sqlite_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// fuzzedStore is the part of a store that FuzzStoreFiles changes.
var fuzzedStore = []string{"", "-wal", "-mark"}

// FuzzStoreFiles changes bytes of a database, its WAL and its commit mark, and then opens the files as each command
// does. For any content, the engine returns an error or works: it neither panics nor hangs, and a plant that it
// acknowledges is stored. Every six bytes of edits are a change: the file, the place (3 bytes), the operation, the
// value.
func FuzzStoreFiles(f *testing.F) {
	original := fuzzedFiles(f)
	f.Add([]byte{})
	for file := range fuzzedStore {
		for operation := range 4 {
			f.Add([]byte{byte(file), 0, 0, 18, byte(operation), 1})
			f.Add([]byte{byte(file), 0, 16, 3, byte(operation), 255, 0, 0, 0, 28, 0, 9})
		}
	}
	f.Fuzz(func(t *testing.T, edits []byte) {
		if len(edits) > 6*64 {
			t.Skip()
		}
		changed := edited(original, edits)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		dir := t.TempDir()
		path := filepath.Join(dir, "plants.db")

		changed.WriteTo(t, path)
		v, errVerify := backupfile.Verify(ctx, path, nil)
		changed.WriteTo(t, path)
		v2, errFile := backupfile.VerifyFile(ctx, path, nil)
		changed.WriteTo(t, path)
		errServe := serveOnce(ctx, t, path)
		clean := errVerify == nil && len(v.Faults) == 0
		if clean && errServe != nil {
			t.Errorf("Verify finds no fault; Open or Insert: %v", errServe)
		}
		backup := filepath.Join(dir, "backup.db")
		sum := sha256.Sum256(changed[""])
		must(t, os.WriteFile(backup, changed[""], 0o600))
		m := backupfile.Manifest{
			Format: 1, Store: v2.Store, Commits: v2.Commits, Plants: v2.Plants,
			Bytes: int64(len(changed[""])), SHA256: hex.EncodeToString(sum[:]),
		}
		must(t, m.Write(backup+backupfile.ManifestSuffix))
		_, errRestore := backupfile.Restore(ctx, backup, filepath.Join(dir, "restored.db"), false, nil)
		if ctx.Err() != nil {
			t.Errorf("the commands have not ended in time: %v, %v, %v, %v", errVerify, errFile, errServe, errRestore)
		}
	})
}

// fuzzedFiles returns the files of a small store after a kill: plants in the database, and further plants in the WAL.
func fuzzedFiles(f *testing.F) sqlitetest.Files {
	f.Helper()
	path := filepath.Join(f.TempDir(), "plants.db")
	open := func() *sqlite.Engine {
		return sqlitetest.Open(f, sqlite.Config{Path: path, Server: true, Log: slog.New(slog.DiscardHandler)})
	}
	e := open()
	sqlitetest.Fill(f, e, rand.New(rand.NewPCG(1, 2)), 2) // reproducible
	must(f, e.Close())                                    // copies the WAL into the database
	e = open()
	for id := range int64(5) {
		must(f, sqlitetest.Insert(f.Context(), e, sqlitetest.Batch(id*10, 5)))
	}
	killed := sqlitetest.ReadFiles(f, path)
	must(f, e.Close())
	if len(killed["-wal"]) == 0 || len(killed["-mark"]) == 0 {
		f.Fatalf("the store has %d bytes of WAL and %d of mark, want some", len(killed["-wal"]), len(killed["-mark"]))
	}
	return killed
}

// edited returns the files after the changes that edits describes.
func edited(f sqlitetest.Files, edits []byte) sqlitetest.Files {
	changed := sqlitetest.Files{}
	for _, name := range fuzzedStore {
		changed[name] = append([]byte{}, f[name]...)
	}
	for ; len(edits) >= 6; edits = edits[6:] {
		name := fuzzedStore[int(edits[0])%len(fuzzedStore)]
		b := changed[name]
		if len(b) == 0 {
			continue
		}
		at := (int(edits[1])<<16 | int(edits[2])<<8 | int(edits[3])) % len(b)
		switch value := edits[5]; edits[4] % 4 {
		case 0:
			b[at] = value
		case 1:
			b[at] ^= 1 << (value % 8)
		case 2:
			changed[name] = b[:at]
		case 3: // copy a run of bytes of the same file
			copy(b[at:], b[(at+int(value)*64)%len(b):])
		}
	}
	return changed
}

// serveOnce opens a store as a server does, reads it, stores a plant and reads it again. A plant that is acknowledged
// and not stored fails the test.
func serveOnce(ctx context.Context, t *testing.T, path string) error {
	t.Helper()
	e, err := sqlite.Open(ctx, sqlite.Config{Path: path, Server: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	if _, err := e.List(ctx, store.Query{Limit: 100}); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if _, err := e.Tokens(ctx); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	if _, err := e.State(ctx); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	const id = 1 << 50
	if err := sqlitetest.Insert(ctx, e, sqlitetest.Batch(id, 1)); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	if _, err := e.Get(ctx, id); err != nil {
		t.Errorf("the plant was acknowledged: %v", err)
	}
	return nil
}
