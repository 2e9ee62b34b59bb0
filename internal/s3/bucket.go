package s3

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Config has the properties of a server. The keys come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN, or from the profile AWS_PROFILE in the shared files (AWS_SHARED_CREDENTIALS_FILE,
// AWS_CONFIG_FILE).
type Config struct {
	Endpoint     string // URL; empty: Amazon S3 in the region
	Region       string // empty: us-east-1
	InstanceRole bool   // also request keys from the metadata service of the machine
	CAFile       string // PEM file that verifies the certificate of the server; empty: the system's
}

// roles are the variables of an environment that gives a program a role.
var roles = []string{
	"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
}

// FromEnvironment returns the configuration in the usual variables. The metadata service of a machine is on only if a
// variable says so, because a server that can be made to forward a request to it reveals the keys of the machine.
func FromEnvironment(vars map[string]string) Config {
	return Config{
		Endpoint: cmp.Or(vars["AWS_ENDPOINT_URL_S3"], vars["AWS_ENDPOINT_URL"]),
		Region:   cmp.Or(vars["AWS_REGION"], vars["AWS_DEFAULT_REGION"]),
		CAFile:   vars["AWS_CA_BUNDLE"],
		InstanceRole: vars["AWS_EC2_METADATA_DISABLED"] == "false" ||
			slices.ContainsFunc(roles, func(name string) bool { return vars[name] != "" }),
	}
}

// Bucket is a bucket on a server. The methods are safe for concurrent use. Their errors wrap fs.ErrNotExist for a
// missing object, and the error of ctx after its end.
type Bucket struct {
	name     string
	base     *url.URL // URL of the bucket
	endpoint string   // for messages
	region   string
	client   *http.Client
	chain    *credentials.Credentials
	last     atomic.Pointer[credentials.Value] // keys of the last request, which no message may have; nil: none
}

// Open returns a bucket. It sends no request. The error is about the configuration.
func Open(c Config, bucket string) (*Bucket, error) {
	c.Region = cmp.Or(c.Region, "us-east-1")
	base, err := c.base(bucket)
	if err != nil {
		return nil, err
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	return &Bucket{
		name: bucket, base: base, endpoint: base.Scheme + "://" + base.Host, region: c.Region,
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // no request to a host that the operator did not name
		}},
		chain: c.chain(),
	}, nil
}

// base returns the URL of a bucket: a host of its own if the endpoint begins with the bucket, as some servers require,
// and at Amazon, because Amazon recommends it. A bucket with a dot in its name has no certificate for a host of its
// own.
func (c Config) base(bucket string) (*url.URL, error) {
	if c.Endpoint != "" {
		u, err := ParseEndpoint(c.Endpoint)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(u.Host, bucket+".") {
			return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
		}
		return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + bucket}, nil
	}
	host := "s3." + c.Region + ".amazonaws.com"
	if !regionText.MatchString(c.Region) {
		return nil, errors.New("AWS_REGION must have lower-case letters, digits and hyphens, such as eu-west-1")
	}
	if strings.Contains(bucket, ".") {
		return &url.URL{Scheme: "https", Host: host, Path: "/" + bucket}, nil
	}
	return &url.URL{Scheme: "https", Host: bucket + "." + host}, nil
}

// ParseEndpoint parses the URL of a server. Its errors do not repeat the text, which may have a secret.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("AWS_ENDPOINT_URL must have the form https://HOST or https://HOST:PORT")
	}
	return u, nil
}
