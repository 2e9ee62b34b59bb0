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
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// ErrNoKeys means that there are no keys to sign requests with.
var ErrNoKeys = errors.New("there are no S3 keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, " +
	"or put them into the shared credentials file")

// chain returns the providers of the keys: the first one that has some counts.
func (c Config) chain() *credentials.Credentials {
	all := []credentials.Provider{&credentials.EnvAWS{}, &sharedFiles{}}
	if c.InstanceRole {
		const metadataMax = 10 * time.Second
		direct := &http.Transport{Proxy: nil} // the metadata service is on the machine
		all = append(all, &credentials.IAM{
			Region: c.Region, Client: &http.Client{Transport: direct, Timeout: metadataMax},
		})
	}
	return credentials.NewChainCredentials(all)
}

// sharedFiles reads the keys of the shared files. It opens no FIFO, because opening one waits for a writer, for each
// read of the keys.
type sharedFiles struct{ credentials.FileAWSCredentials }

// RetrieveWithCredContext implements credentials.Provider.
func (f *sharedFiles) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	if err := refuseSharedFIFO(); err != nil {
		return credentials.Value{}, err
	}
	return f.FileAWSCredentials.RetrieveWithCredContext(c)
}

func refuseSharedFIFO() error {
	home, _ := os.UserHomeDir() // the library does not read the files of an unknown directory either
	return cmp.Or(
		refuseFIFO(cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws", "credentials"))),
		refuseFIFO(cmp.Or(os.Getenv("AWS_CONFIG_FILE"), filepath.Join(home, ".aws", "config"))))
}

func refuseFIFO(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		return fmt.Errorf("%s is a FIFO, and is read more than once; use a regular file", path)
	}
	return nil
}

// keys returns the keys, which the chain keeps until they expire. The chain returns anonymous ones if it has none, and
// hides the errors of the providers, which repeat the lines of a malformed file.
func (b *Bucket) keys(ctx context.Context) (v credentials.Value, err error) {
	v, err = b.chain.GetWithContext(&credentials.CredContext{Context: ctx, Client: http.DefaultClient})
	if err == nil && v.AccessKeyID != "" && v.SecretAccessKey != "" {
		b.last.Store(&v)
		return v, nil
	}
	if err := refuseSharedFIFO(); err != nil {
		return v, fmt.Errorf("%w; %w", ErrNoKeys, err)
	}
	return v, ErrNoKeys
}

// CheckKeys reads the keys again, so that changed ones take effect. Without keys the error is ErrNoKeys. With an
// instance role, or a profile that names a program or single sign-on, it may send requests or start that program.
func (b *Bucket) CheckKeys(ctx context.Context) error {
	b.chain.Expire()
	_, err := b.keys(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
