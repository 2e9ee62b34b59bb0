package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"plantstore/internal/admin"
	"plantstore/internal/dump"
	"plantstore/internal/plant"
	"plantstore/internal/terminal"
)

// interruptedPages has pages without an end. The user interrupts the export during the third page.
type interruptedPages struct {
	operations

	pages     int
	interrupt context.CancelFunc
}

// Plants implements operations.
func (o *interruptedPages) Plants(ctx context.Context, _ admin.PageQuery) (admin.Page, error) {
	if o.pages++; o.pages == 3 {
		o.interrupt()
		return admin.Page{}, ctx.Err()
	}
	return admin.Page{Plants: make([]plant.Record, 1000), Next: "more"}, nil
}

// TestInterruptedExport tests that an interrupted export leaves no partial file and does not change an existing one.
func TestInterruptedExport(t *testing.T) {
	t.Parallel()
	for _, compression := range []dump.Compression{dump.None, dump.Gzip} {
		dir := t.TempDir()
		old := filepath.Join(dir, "old")
		if err := os.WriteFile(old, []byte("a file to keep"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := &program{Streams: terminal.Streams{Stderr: io.Discard}}
		for _, name := range []string{"old", "new"} {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			pages := &interruptedPages{interrupt: interrupt}
			facts := exportFacts{File: filepath.Join(dir, name), Format: dump.CSV, Compression: compression}
			err := p.export(ctx, plants(ctx, pages, admin.PageQuery{}), &facts, true, false)
			if !errors.Is(err, terminal.ErrInterrupted) {
				t.Errorf("%s: got error %v, want an interrupt", name, err)
			}
		}
		if text, err := os.ReadFile(old); err != nil || string(text) != "a file to keep" {
			t.Errorf("the existing file: got %q, %v; want no change", text, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("files: got %v, %v; want only old", files, err)
		}
	}
}
