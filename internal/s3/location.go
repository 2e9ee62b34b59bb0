// Package s3 stores objects in a bucket of an S3-compatible server. It sends each object with its checksums, limits
// each response, and has no secret in its errors.
package s3

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Scheme begins the text of a Location.
const Scheme = "s3://"

// Location is a bucket with the key of an object, or with a prefix of keys.
type Location struct {
	Bucket string
	Key    string // without a slash at its start and its end
}

// bucketName has the names that Amazon S3 allows
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html). A key has printable ASCII characters
// that no log and no URL has to escape.
var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	keyText    = regexp.MustCompile(`^[A-Za-z0-9!_.*'()+=@,-]+(/[A-Za-z0-9!_.*'()+=@,-]+)*$`)
)

var regionText = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// keyBytesMax leaves room for the name of a backup below the limit of 1024 bytes.
const keyBytesMax = 800

// ParseLocation parses s3://BUCKET or s3://BUCKET/KEY. Its errors do not repeat the text, which may have a secret.
func ParseLocation(text string) (l Location, err error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return l, errors.New("the address is not an S3 address; use the form s3://BUCKET/PREFIX")
	}
	bucket, key, _ := strings.Cut(rest, "/")
	key = strings.TrimSuffix(key, "/")
	switch {
	case strings.ContainsAny(bucket, "@:"):
		return l, errors.New("the address may have a password; use the form s3://BUCKET/PREFIX, and put the keys into " +
			"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or into the shared credentials file")
	case !bucketName.MatchString(bucket):
		return l, errors.New("the bucket of the S3 address must have 3 to 63 lower-case letters, digits, dots and hyphens")
	case len(key) > keyBytesMax:
		return l, fmt.Errorf("the key of the S3 address has %d bytes; use at most %d", len(key), keyBytesMax)
	case key != "" && (!keyText.MatchString(key) || "/"+key != path.Clean("/"+key)):
		return l, errors.New("the key of the S3 address must have letters, digits and !_.*'()+=@,- between single slashes")
	}
	return Location{Bucket: bucket, Key: key}, nil
}

// String returns the text of the location.
func (l Location) String() string {
	if l.Key == "" {
		return Scheme + l.Bucket
	}
	return Scheme + l.Bucket + "/" + l.Key
}

// Join returns the location of a name below the prefix.
func (l Location) Join(name string) Location {
	if l.Key != "" {
		name = l.Key + "/" + name
	}
	return Location{Bucket: l.Bucket, Key: name}
}
