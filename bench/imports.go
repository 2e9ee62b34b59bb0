package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const sqlite3Name = "sqlite3"

// imports measures the import of the real file, with SQLite's own beside it in
// turns, and of made plants, which makes the largest stores of growth.
func (b *bench) imports(ctx context.Context) error {
	if _, err := os.Stat(b.csv); err != nil {
		b.log.Warn("skipped: the import of real plants, because their file is not there; name it with -csv", "error", err)
	} else if err := b.importReal(ctx); err != nil {
		return err
	}
	most := slices.Max(b.rows)
	if most == 0 {
		return nil
	}
	for _, order := range []string{orderRandom, orderAscending} {
		path := filepath.Join(b.stores, fmt.Sprintf("%s-%d.db", order, most))
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if _, err := b.store(ctx, order, most); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) importReal(ctx context.Context) error {
	for round := b.round; round < b.round+b.rounds; round++ {
		for i := range 2 {
			name := []string{productName, sqlite3Name}[(round+i)%2]
			if err := b.importOnce(ctx, importRecord{Round: round, Contender: name, Source: "real"}, b.csv, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// importMade imports made plants, and keeps the store at path.
func (b *bench) importMade(ctx context.Context, order string, n int64, path string) error {
	csv := filepath.Join(b.work, "made.csv")
	defer os.Remove(csv)
	if err := writeMade(csv, order, n); err != nil {
		return err
	}
	return b.importOnce(ctx, importRecord{Contender: productName, Source: order}, csv, path)
}

// importOnce imports a file into an empty store, and notes it. The store is
// kept if there is a path for it.
func (b *bench) importOnce(ctx context.Context, r importRecord, csv, keep string) error {
	dir, err := b.runDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := settle(ctx); err != nil {
		return err
	}
	db := filepath.Join(dir, "plants.db")
	if err := b.importInto(ctx, db, csv, &r); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Fault = err.Error()
	}
	b.log.Info("imported", "contender", r.Contender, "source", r.Source, "rows", r.Rows, "rate", int(r.perSecond()), "peak MiB", r.Peak>>20, "fault", r.Fault)
	if err := b.note(record{Import: &r}); err != nil {
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

func (b *bench) importInto(ctx context.Context, db, csv string, r *importRecord) error {
	args := []string{b.program(productName), "import", csv, "--create", "--db", db}
	if r.Contender == sqlite3Name {
		args = sqliteImport(db, csv)
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env = cleanEnviron()
	began := time.Now()
	out, err := command.CombinedOutput()
	r.Seconds = time.Since(began).Seconds()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", r.Contender, err, out)
	}
	if used, ok := command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.Peak = used.Maxrss << 10
	}
	r.Processor = (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds()
	if r.Rows, err = countFile(ctx, db); err != nil {
		return err
	}
	if r.Contender == productName {
		if said, err := createdRows(out); err != nil || said != r.Rows {
			return errors.Join(err, fmt.Errorf("import says %d rows, and the store has %d", said, r.Rows))
		}
	}
	r.DiskBytes, err = diskBytes(db, db+"-*")
	return err
}

var createdLine = regexp.MustCompile(`(?m)^created (\d+), already there 0, conflicting 0, invalid 0$`)

func createdRows(out []byte) (int64, error) {
	match := createdLine.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("import says %s", out)
	}
	return strconv.ParseInt(string(match[1]), 10, 64)
}

// sqliteImport is SQLite's own import of the same file, with its defaults,
// into a table with the same primary key.
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
