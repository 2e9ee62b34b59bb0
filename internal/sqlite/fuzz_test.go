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

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// FuzzManifest reads any text as a manifest. A manifest that is read has the supported format,
// and is the same after it was written.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"made_at":"2026-01-02T03:04:05Z","store":"00ff","commits":2,"plants":1,"bytes":4096,` +
		`"sha256":"00"}`))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"format":1,"bytes":1e3,"made_at":"0001-01-01T00:00:00-24:00"}`))
	f.Add([]byte(`{"format":1,"made_at":"9999-12-31T23:00:00-23:00"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "in.json")
		must(t, os.WriteFile(path, text, 0o600))
		m, err := sqlite.ReadManifest(path)
		if err != nil {
			return
		}
		if m.Format != 1 {
			t.Errorf("ReadManifest(%q): format %d", text, m.Format)
		}
		again := filepath.Join(dir, "out.json")
		must(t, m.Write(again))
		got, err := sqlite.ReadManifest(again)
		if diff := cmp.Diff(m, got); diff != "" || err != nil {
			t.Errorf("ReadManifest(%q), written and read again: %v (-first +again):\n%s", text, err, diff)
		}
	})
}

// fuzzedStore is the part of a store that FuzzStoreFiles changes.
var fuzzedStore = []string{"", "-wal", "-mark"}

// FuzzStoreFiles changes bytes of a database, its WAL and its commit mark, and then opens the
// files as each command does. For any content, the engine returns an error or works: it neither
// panics nor hangs, and a plant that it acknowledges is stored. Every six bytes of edits are a
// change: the file, the place (3 bytes), the operation, the value.
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
		changed := original.edited(edits)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		dir := t.TempDir()
		path := filepath.Join(dir, "plants.db")

		changed.writeTo(t, path)
		v, errVerify := sqlite.Verify(ctx, path, nil)
		changed.writeTo(t, path)
		v2, errFile := sqlite.VerifyFile(ctx, path, nil)
		changed.writeTo(t, path)
		errServe := serveOnce(ctx, t, path)
		clean := errVerify == nil && len(v.Faults) == 0
		if clean && errServe != nil {
			t.Errorf("Verify finds no fault; Open or Insert: %v", errServe)
		}
		backup := filepath.Join(dir, "backup.db")
		sum := sha256.Sum256(changed[""])
		must(t, os.WriteFile(backup, changed[""], 0o600))
		m := sqlite.Manifest{
			Format: 1, Store: v2.Store, Commits: v2.Commits, Plants: v2.Plants,
			Bytes: int64(len(changed[""])), SHA256: hex.EncodeToString(sum[:]),
		}
		must(t, m.Write(backup+sqlite.ManifestSuffix))
		_, errRestore := sqlite.Restore(ctx, backup, filepath.Join(dir, "restored.db"), false, nil)
		if ctx.Err() != nil {
			t.Errorf("the commands have not ended in time: %v, %v, %v, %v", errVerify, errFile, errServe, errRestore)
		}
	})
}

// fuzzedFiles returns the files of a small store after a kill: plants in the database, and
// further plants in the WAL.
func fuzzedFiles(f *testing.F) files {
	f.Helper()
	path := filepath.Join(f.TempDir(), "plants.db")
	open := func() *sqlite.Engine {
		return mustOpen(f, sqlite.Config{Path: path, Server: true, Log: slog.New(slog.DiscardHandler)})
	}
	e := open()
	fill(f, e, rand.New(rand.NewPCG(1, 2)), 2) // reproducible
	must(f, e.Close())                         // copies the WAL into the database
	e = open()
	for id := range int64(5) {
		must(f, insertBatch(f.Context(), e, batchOf(id*10, 5)))
	}
	killed := readFiles(f, path)
	must(f, e.Close())
	if len(killed["-wal"]) == 0 || len(killed["-mark"]) == 0 {
		f.Fatalf("the store has %d bytes of WAL and %d of mark, want some", len(killed["-wal"]), len(killed["-mark"]))
	}
	return killed
}

// edited returns the files after the changes that edits describes.
func (f files) edited(edits []byte) files {
	changed := files{}
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

// serveOnce opens a store as a server does, reads it, stores a plant and reads it again. A plant
// that is acknowledged and not stored fails the test.
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
	if err := insertBatch(ctx, e, batchOf(id, 1)); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	if _, err := e.Get(ctx, id); err != nil {
		t.Errorf("the plant was acknowledged: %v", err)
	}
	return nil
}
