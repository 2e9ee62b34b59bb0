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
	Listen string // address of the listener
	Token  string // the only valid bearer token
	DB     string // SQLite file or PostgreSQL connection string

	TLSCert, TLSKey string // PEM files; empty: no TLS
}

// Main is the main function of a contender: it serves the handler that open returns until SIGTERM, then calls
// closeStore.
func Main(open func(Flags) (handler http.Handler, closeStore func() error, err error)) {
	var f Flags
	flag.StringVar(&f.Listen, "listen", "127.0.0.1:8080", "`address` of the listener")
	flag.StringVar(&f.Token, "token", "", "the only valid bearer `token`")
	flag.StringVar(&f.DB, "db", "", "SQLite `file` or PostgreSQL connection string")
	flag.StringVar(&f.TLSCert, "tls-cert", "", "PEM `file` of the certificate; empty: no TLS")
	flag.StringVar(&f.TLSKey, "tls-key", "", "PEM `file` of the private key")
	flag.Parse()
	if err := serve(f, open); err != nil {
		slog.Error("serve", "error", err)
		os.Exit(1) //nolint:forbidigo // the exit code of main
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

	server := &http.Server{Addr: f.Listen, Handler: handler} //nolint:gosec // loopback clients need no timeout
	failed := make(chan error, 1)
	go func() { // ends with Shutdown
		if f.TLSCert != "" {
			failed <- server.ListenAndServeTLS(f.TLSCert, f.TLSKey)
			return
		}
		failed <- server.ListenAndServe()
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}
