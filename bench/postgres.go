package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// cluster starts PostgreSQL servers with default settings. Each has a fresh data directory, copied from a template that
// initdb created.
type cluster struct {
	bin      string
	template string
	as       *syscall.Credential // user of PostgreSQL, which refuses to run as root; nil: the current user
}

// postgresBin returns the directory of the programs of PostgreSQL 15, or of the newest installed version.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is missing: apt-get install postgresql")
	}
	slices.Sort(found)
	const wanted = "/usr/lib/postgresql/15/bin/postgres"
	if slices.Contains(found, wanted) {
		return filepath.Dir(wanted), nil
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func newCluster(ctx context.Context, dir string) (*cluster, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bin, template: filepath.Join(dir, "template")}
	if os.Geteuid() == 0 {
		if c.as, err = credentialOf("postgres"); err != nil {
			return nil, err
		}
	}
	if err := c.ownDir(dir); err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", c.template, "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8")
	initdb.Dir = dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return c, nil
}

func credentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// ownDir creates a directory that PostgreSQL's user owns.
func (c *cluster) ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil || c.as == nil {
		return err
	}
	return os.Chown(dir, int(c.as.Uid), int(c.as.Gid))
}

// database is a running PostgreSQL server with a socket in dir and no port.
type database struct {
	*process
	dir string
	bin string
}

// start starts a server of an empty database in a new directory.
func (c *cluster) start(ctx context.Context, cpus, dir string) (*database, error) {
	if err := c.ownDir(dir); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", c.template, data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the data directory: %w\n%s", err, out)
	}
	syscall.Sync()
	p, err := start(ctx, cpus, c.as, filepath.Join(c.bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=")
	if err != nil {
		return nil, err
	}
	db := &database{process: p, dir: dir, bin: c.bin}
	err = waitFor(ctx, "PostgreSQL", p.exited, func() bool {
		return exec.CommandContext(ctx, filepath.Join(c.bin, "pg_isready"), "-q", "-h", dir).Run() == nil
	})
	if err != nil {
		return nil, errors.Join(err, db.stop(), errors.New(p.stderr.String()))
	}
	return db, nil
}

func (d *database) url() string { return "host=" + d.dir + " user=postgres dbname=postgres" }

// storeURL is the address of the database as a store.
func (d *database) storeURL() string {
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(d.dir)
}

// stop does PostgreSQL's fast shutdown.
func (d *database) stop() error { return d.process.stop(syscall.SIGINT) }

func (d *database) countRows(ctx context.Context) (int64, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(d.bin, "psql"), "-X", "-A", "-t", "-d", d.url(), "-c",
		"SELECT count(*) FROM plants").Output()
	if err != nil {
		return 0, fmt.Errorf("count the rows: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}

// tableBytes returns the size of tables and indexes on disk, without the WAL, of which PostgreSQL keeps segments for
// reuse.
func (d *database) tableBytes() (int64, error) {
	return diskBytes(filepath.Join(d.dir, "data", "base"))
}
