package pgtest

import (
	"context"
	"errors"
	"strings"
)

// Certificates are the files of a server with TLS, in PEM.
type Certificates struct{ Certificate, Key, Clients []byte } // Clients: the authority of the certificates of clients

func (c Certificates) files() map[string][]byte {
	return map[string][]byte{"server.crt": c.Certificate, "server.key": c.Key, "clients.crt": c.Clients}
}

// StartTLS starts a server that also listens on TCP port 5432 of the addresses. There it accepts only TLS and SCRAM
// authentication. From the role "careless" it requests the password in clear text, from the role "dated" its MD5 hash,
// with and without TLS, and from the role "certified" a certificate with this name too. The caller stops it.
func StartTLS(ctx context.Context, addresses []string, c Certificates) (*Server, error) {
	const access = `local   all all       trust
host    all careless  all password
host    all dated     all md5
hostssl all certified all scram-sha-256 clientcert=verify-full
hostssl all all       all scram-sha-256
`
	files := c.files()
	files["access.conf"] = []byte(access)
	return startWith(ctx, files, []string{
		"listen_addresses=" + strings.Join(addresses, ","), "ssl=on", // files are relative to the data directory
		"ssl_cert_file=../server.crt", "ssl_key_file=../server.key", "ssl_ca_file=../clients.crt",
		"hba_file=access.conf", // relative to the working directory
	})
}

// Renew replaces the files of StartTLS. The server uses them for new connections soon after the call.
func (s *Server) Renew(ctx context.Context, c Certificates) error {
	as, err := owner()
	if err != nil {
		return err
	}
	return errors.Join(s.write(as, c.files()), execute(ctx, s.url("postgres"), "SELECT pg_reload_conf()"))
}
