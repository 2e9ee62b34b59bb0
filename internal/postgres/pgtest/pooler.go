package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/childtest"
)

const poolerProgram = "/usr/sbin/pgbouncer"

// ErrNoPooler means that PgBouncer is not installed.
var ErrNoPooler = errors.New("PgBouncer is not installed: apt-get install pgbouncer")

// Pooler starts PgBouncer before the server with a pool mode, session or transaction, and returns a function that stops
// it. Clients reach it with the server's URLs and that port. In transaction mode it changes the session after each
// transaction, if there are several.
func (s *Server) Pooler(ctx context.Context, mode string, port int) (stop func() error, err error) {
	if _, err := os.Stat(poolerProgram); err != nil {
		return nil, ErrNoPooler
	}
	as, err := owner()
	if err != nil {
		return nil, err
	}
	name := "pgbouncer-" + mode
	config := fmt.Sprintf(`[databases]
* = host=%s user=postgres
[pgbouncer]
unix_socket_dir = %[1]s
listen_port = %d
auth_type = any
pool_mode = %s
default_pool_size = 100
server_round_robin = 1
server_idle_timeout = 1
`, s.dir, port, mode)
	if err := s.write(as, map[string][]byte{name: []byte(config)}); err != nil {
		return nil, err
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), poolerProgram, "--quiet", filepath.Join(s.dir, name))
	command.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	childtest.EndWithTest(command, syscall.SIGTERM)
	if err := command.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		err := command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait() // it returns the signal as an error
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := pgx.Connect(ctx, s.url("postgres")+fmt.Sprint("&port=", port))
		if err == nil {
			return stop, c.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(err, stop())
		}
	}
}
