package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Check returns the error that Open would return for a server, and reports whether one runs on the file, which is no
// error. It changes nothing. c.Log is required.
func Check(ctx context.Context, c Config) (served bool, err error) {
	c.Migrate = true
	found, err := findFile(&c)
	if err != nil {
		return false, err
	}
	if err := unix.Access(filepath.Dir(c.Path), unix.W_OK|unix.X_OK); err != nil {
		return false, dbfile.NotWritable(c.Path, err)
	}
	if !found {
		c.Log.Info("plantstore serve creates the store", "db", c.Path)
		return false, nil
	}
	var file syscall.Stat_t
	if err := syscall.Stat(c.Path, &file); err != nil {
		return false, fmt.Errorf("stat %s: %w", c.Path, err)
	}
	err = dbfile.CheckFile(c.Path, &file)
	if denied := unix.Access(c.Path, unix.R_OK|unix.W_OK); err == nil && denied != nil {
		err = dbfile.NotWritable(c.Path, denied)
	}
	if err != nil {
		return false, err
	}
	dbfile.WarnModes(c.Path, c.Log)
	return dbfile.Served(c.Path), diskFault(dbfile.Read(ctx, c.Path, func(conn *sqlite3.Conn) error {
		version, err := c.acceptWritable(conn)
		if err != nil || version == 0 {
			return err
		}
		if newest := dbfile.NewestSchema(); version < newest {
			c.Log.Info("plantstore serve migrates the store", "from", version, "to", newest)
			return nil
		}
		to, err := movedTo(conn)
		if err != nil {
			return err
		}
		return store.Moved(to)
	}))
}
