package plain

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Flags are the command line of a contender.
type Flags struct {
	Listen string // the address to serve on
	Token  string // the one bearer token that is good
	DB     string // where the plants are kept
}

// Main is a contender's main: it serves what open returns until SIGTERM, and
// closes it.
func Main(open func(Flags) (handler http.Handler, closeStore func() error, err error)) {
	var f Flags
	flag.StringVar(&f.Listen, "listen", "127.0.0.1:8080", "`address` to serve on")
	flag.StringVar(&f.Token, "token", "", "the bearer `token` that is good")
	flag.StringVar(&f.DB, "db", "", "`place` where the plants are kept")
	flag.Parse()
	if err := serve(f, open); err != nil {
		slog.Error("serve", "error", err)
		os.Exit(1) //nolint:forbidigo // it is main, for every contender
	}
}

func serve(f Flags, open func(Flags) (http.Handler, func() error, error)) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	handler, closeStore, err := open(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	server := &http.Server{Addr: f.Listen, Handler: handler} //nolint:gosec // as net/http comes: a time-out costs a little, and this serves loopback only
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }() // ends with Shutdown
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}
