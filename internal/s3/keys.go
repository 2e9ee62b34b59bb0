package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// ErrNoKeys means that there are no keys to sign requests with.
var ErrNoKeys = errors.New("there are no S3 keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, " +
	"or put them into the shared credentials file")

// provider returns the keys of the first provider that has some. It never returns anonymous keys, as the chain of the
// library does.
type provider struct {
	all []credentials.Provider

	mu      sync.Mutex           // guards the fields below
	current credentials.Provider // of the last keys; nil: none
	last    credentials.Value    // keys of the last requests
}

// provider returns the providers of the configuration.
func (c Config) provider() *provider {
	all := []credentials.Provider{&credentials.EnvAWS{}, &sharedFiles{}}
	if c.InstanceRole {
		const metadataMax = 10 * time.Second
		direct := &http.Transport{Proxy: nil} // the metadata service is on the machine
		all = append(all, &credentials.IAM{
			Region: c.Region, Client: &http.Client{Transport: direct, Timeout: metadataMax},
		})
	}
	return &provider{all: all}
}

// sharedFiles reads the keys of the shared files. It opens no FIFO, because opening one waits for a writer, for each
// read of the keys.
type sharedFiles struct{ credentials.FileAWSCredentials }

// RetrieveWithCredContext implements credentials.Provider.
func (f *sharedFiles) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	home, _ := os.UserHomeDir() // the library does not read the files of an unknown directory either
	for _, path := range []string{
		cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws", "credentials")),
		cmp.Or(os.Getenv("AWS_CONFIG_FILE"), filepath.Join(home, ".aws", "config")),
	} {
		if err := refuseFIFO(path); err != nil {
			return credentials.Value{}, err
		}
	}
	return f.FileAWSCredentials.RetrieveWithCredContext(c)
}

var errFIFO = errors.New("is a FIFO, and is read more than once; use a regular file")

func refuseFIFO(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		return fmt.Errorf("%s %w", path, errFIFO)
	}
	return nil
}

// keys returns the keys, and keeps them until they expire or again is set. It hides the errors of the providers,
// which repeat the lines of a malformed file.
func (p *provider) keys(ctx context.Context, again bool) (credentials.Value, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !again && p.current != nil && !p.current.IsExpired() {
		return p.last, nil
	}
	p.current = nil
	fault := ErrNoKeys
	for _, one := range p.all {
		v, err := one.RetrieveWithCredContext(&credentials.CredContext{Context: ctx, Client: http.DefaultClient})
		if err == nil && v.AccessKeyID != "" && v.SecretAccessKey != "" {
			p.current, p.last = one, v
			return v, nil
		}
		if errors.Is(err, errFIFO) {
			fault = fmt.Errorf("%w; %w", ErrNoKeys, err)
		}
	}
	return credentials.Value{}, fault
}

// hide replaces the secrets of the last requests in a text.
func (p *provider) hide(text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, secret := range []string{p.last.SecretAccessKey, p.last.SessionToken} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(hidden)")
		}
	}
	return text
}

// CheckKeys reads the keys again, so that changed ones take effect. Without keys the error is ErrNoKeys. With an
// instance role, or a profile that names a program or single sign-on, it may send requests or start that program.
func (b *Bucket) CheckKeys(ctx context.Context) error {
	_, err := b.provider.keys(ctx, true)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
