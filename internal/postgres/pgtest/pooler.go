package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"plantstore/internal/childtest"
)

const poolerProgram = "/usr/sbin/pgbouncer"

// ErrNoPooler means that PgBouncer is not installed.
var ErrNoPooler = errors.New("PgBouncer is not installed: apt-get install pgbouncer")

// Pooler starts PgBouncer before the server with a pool mode, session or transaction, and returns a function that stops
// it. Clients reach it with the server's URLs and that port. In transaction mode it changes the session after each
// transaction, if there are several.
func (s *Server) Pooler(ctx context.Context, mode string, port int) (stop func(), err error) {
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
	at := fmt.Sprintf("%s&port=%d", s.url("postgres"), port)
	process, err := launch(ctx, command, syscall.SIGTERM, &childtest.Output{}, at)
	if err != nil {
		return nil, err
	}
	return process.End, nil
}
