package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const sqlite3Name = "sqlite3"

// imports measures the import of real plants, alternating with sqlite3's import,
// and of generated plants. The latter creates the largest stores of growth.
func (b *bench) imports(ctx context.Context) error {
	if _, err := os.Stat(b.csv); err != nil {
		b.log.Warn("skipped the import of real plants: their file is missing; set -csv", "error", err)
	} else if err := b.importReal(ctx); err != nil {
		return err
	}
	largest := slices.Max(b.rows)
	if largest == 0 {
		return nil
	}
	for _, order := range []string{orderRandom, orderAscending} {
		path := filepath.Join(b.stores, fmt.Sprintf("%s-%d.db", order, largest))
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if _, err := b.store(ctx, order, largest); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) importReal(ctx context.Context) error {
	for round := b.round; round < b.round+b.phaseRounds(); round++ {
		for i := range 2 {
			name := []string{productName, sqlite3Name}[(round+i)%2]
			if err := b.importOnce(ctx, importRun{Round: round, Contender: name, Source: "real"}, b.csv, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// importGenerated imports n generated plants into a new store at path.
func (b *bench) importGenerated(ctx context.Context, order string, n int64, path string) error {
	csv := filepath.Join(b.work, "generated.csv")
	defer os.Remove(csv)
	if err := writeGenerated(csv, order, n); err != nil {
		return err
	}
	return b.importOnce(ctx, importRun{Contender: productName, Source: order}, csv, path)
}

// importOnce imports a file into an empty store and saves the measurement. It
// moves the store to keep unless that is "".
func (b *bench) importOnce(ctx context.Context, r importRun, csv, keep string) error {
	dir, err := b.runDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := syncDisks(ctx); err != nil {
		return err
	}
	db := filepath.Join(dir, "plants.db")
	if err := b.importInto(ctx, db, csv, &r); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Fault = err.Error()
	}
	b.log.Info("imported", "contender", r.Contender, "source", r.Source, "rows", r.Rows, "rate", int(r.perSecond()),
		"peak MiB", r.Peak>>20, "fault", r.Fault)
	if err := b.save(measurement{Import: &r}); err != nil {
		return err
	}
	if keep == "" {
		return nil
	}
	if r.Fault != "" {
		return errors.New(r.Fault)
	}
	return os.Rename(db, keep)
}

func (b *bench) importInto(ctx context.Context, db, csv string, r *importRun) error {
	args := []string{b.program(productName), "import", csv, "--json", "--create", "--db", db}
	if r.Contender == sqlite3Name {
		args = sqliteImport(db, csv)
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env = cleanEnviron()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	started := time.Now()
	out, err := command.Output()
	r.Seconds = time.Since(started).Seconds()
	if err != nil {
		return fmt.Errorf("%s: %w: %s%s", r.Contender, err, out, &stderr)
	}
	if used, ok := command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.Peak = used.Maxrss << 10
	}
	r.Processor = (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds()
	if r.Rows, err = countFile(ctx, db); err != nil {
		return err
	}
	if r.Contender == productName {
		if created, err := createdRows(out); err != nil || created != r.Rows {
			return errors.Join(err, fmt.Errorf("import reports %d rows, but the store has %d", created, r.Rows))
		}
	}
	r.DiskBytes, err = diskBytes(db, db+"-*")
	return err
}

// createdRows returns the number of created rows in the output of import --json.
// Any other row is an error.
func createdRows(out []byte) (int64, error) {
	var counts struct{ Created, Existing, Conflicting, Invalid int64 }
	if err := json.Unmarshal(out, &counts); err != nil {
		return 0, fmt.Errorf("import: output %q: %w", out, err)
	}
	if counts.Existing+counts.Conflicting+counts.Invalid > 0 {
		return 0, fmt.Errorf("import: not all rows were created: %s", out)
	}
	return counts.Created, nil
}

// sqliteImport returns the command line of sqlite3's import of the same file,
// with defaults, into a table with the same primary key.
func sqliteImport(db, csv string) []string {
	source := "'" + csv + "'"
	if strings.HasSuffix(csv, ".gz") {
		source = `"|gzip -dc '` + csv + `'"`
	}
	return []string{
		"sqlite3", "-bail", db,
		"CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)",
		".import --csv --skip 1 " + source + " plants",
	}
}
