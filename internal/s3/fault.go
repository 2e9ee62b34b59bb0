package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// fault returns the error of a request about a key, without secrets: a server may repeat a header of the request in
// its message. A nil error stays nil.
func (b *Bucket) fault(ctx context.Context, key string, err error) error {
	var response *responseError
	var request *url.Error
	location := Location{b.name, key}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrNoKeys):
		return err
	case errors.As(err, &response):
		return b.responseFault(location, response)
	case errors.As(err, &request): // without its URL
		err = request.Err
	}
	return fmt.Errorf("%s: no response of the S3 server %s: %w", location, b.endpoint, b.hide(err.Error()))
}

// responseFault returns the error for an error response of the server, with the remedy if it is known.
func (b *Bucket) responseFault(location Location, r *responseError) error {
	remedy := ""
	switch r.Code {
	case "NoSuchKey":
		return fmt.Errorf("%s: %w", location, fs.ErrNotExist)
	case "NoSuchUpload":
		return fmt.Errorf("%s: the S3 server %s has no such upload: %w", location, b.endpoint, fs.ErrNotExist)
	case "NoSuchBucket":
		return fmt.Errorf("%s: the bucket does not exist on %s; create it or change the address", location, b.endpoint)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		remedy = "; check the keys and their expiry"
	case "AccessDenied":
		const remedy = "give the keys the rights to list the bucket, and to read, write and delete its objects"
		err := deniedError{b.hide(r.Error())}
		return fmt.Errorf("%s: the S3 server %s returned %w; %s", location, b.endpoint, err, remedy)
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect", "Redirect",
		"IllegalLocationConstraintException":
		remedy = "; check the region and the endpoint"
	case "SecondLevelDomainForbidden", "PathStyleDomainForbidden", "InvalidPathAccess":
		remedy = "; put the bucket before the host of AWS_ENDPOINT_URL, because this server requires it there"
	case "NotFound":
		remedy = "; the response is not from an S3 server, check the endpoint and the proxies before it"
	case "PreconditionFailed":
		remedy = "; the object was replaced during the download, start it again"
	case "RequestTimeTooSkewed":
		remedy = "; set the clock of this machine"
	}
	if r.status == http.StatusInsufficientStorage {
		remedy = "; free space on the S3 server"
	}
	return fmt.Errorf("%s: the S3 server %s returned %w%s", location, b.endpoint, b.hide(r.Error()), remedy)
}

// ErrDenied is the error of a request that the keys may not send.
var ErrDenied = errors.New("the keys lack the right")

// deniedError is ErrDenied with the text of the server.
type deniedError struct{ error }

// Is implements the interface of errors.Is.
func (deniedError) Is(target error) bool { return target == ErrDenied }

// signature matches the signature of a request, which another program could send again within 15 minutes.
var signature = regexp.MustCompile(`Signature=[0-9a-fA-F]*`)

// hide returns an error with a text of the server or the library, without the keys and not too long.
func (b *Bucket) hide(text string) error {
	const textBytesMax = 300
	if keys := b.last.Load(); keys != nil {
		text = strings.ReplaceAll(text, keys.SecretAccessKey, "(hidden)")
		if keys.SessionToken != "" {
			text = strings.ReplaceAll(text, keys.SessionToken, "(hidden)")
		}
	}
	text = signature.ReplaceAllString(text, "Signature=(hidden)")
	if len(text) > textBytesMax {
		text = text[:textBytesMax] + "…"
	}
	return errors.New(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"))
}
