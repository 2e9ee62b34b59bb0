package pgtest

import (
	"context"
	"strings"
)

// StartTLS starts a server that also listens on TCP port 5432 of the addresses, with a
// certificate and its key in PEM. There it accepts only TLS and SCRAM authentication.
// From the role "careless" it requests the password in clear text, and from the role
// "dated" its MD5 hash, with and without TLS. The caller stops it.
func StartTLS(ctx context.Context, addresses []string, certificate, key []byte) (*Server, error) {
	const access = `local   all all      trust
host    all careless all password
host    all dated    all md5
hostssl all all      all scram-sha-256
`
	files := map[string][]byte{"server.crt": certificate, "server.key": key, "access.conf": []byte(access)}
	return startWith(ctx, files, []string{
		"listen_addresses=" + strings.Join(addresses, ","), "ssl=on",
		"ssl_cert_file=../server.crt", "ssl_key_file=../server.key", // relative to the data directory
		"hba_file=access.conf", // relative to the working directory
	})
}
