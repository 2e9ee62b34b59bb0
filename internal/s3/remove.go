package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // see contentMD5
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// RemoveError is the error of Remove for several objects.
type RemoveError struct {
	Left int   // objects that may still be stored
	Err  error // the first failure
}

// Error implements error.
func (e *RemoveError) Error() string {
	return fmt.Sprintf("could not remove %d objects: %s", e.Left, e.Err)
}

// Unwrap returns the first failure.
func (e *RemoveError) Unwrap() error { return e.Err }

// removeMax is the number of objects that a request may remove
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html).
const removeMax = 1000

// Remove removes objects, up to 1,000 in a request, and ends after a request that did not remove all of them. A missing
// object is not an error. For several objects the error is a *RemoveError.
func (b *Bucket) Remove(ctx context.Context, keys ...string) error {
	if len(keys) == 1 {
		return b.remove(ctx, keys[0], nil)
	}
	left := len(keys)
	for some := range slices.Chunk(keys, removeMax) {
		removed, err := b.removeSome(ctx, some)
		left -= removed
		if err != nil {
			return &RemoveError{left, err}
		}
	}
	return nil
}

// remove removes an object, or the upload that a query names. A missing one is not an error.
func (b *Bucket) remove(ctx context.Context, key string, query url.Values) error {
	_, err := b.call(ctx, request{method: http.MethodDelete, key: key, query: query}, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeSome removes up to removeMax objects and returns their number. Some servers don't know a request for several
// objects, and refuse it with various codes. If such a server removes the objects one by one, it never receives another
// one.
func (b *Bucket) removeSome(ctx context.Context, keys []string) (removed int, err error) {
	type object struct{ Key string }
	list := struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Delete"`
		Quiet   bool     // the response names only the objects that are left
		Object  []object
	}{Quiet: true}
	for _, key := range keys {
		list.Object = append(list.Object, object{key})
	}
	text, err := xml.Marshal(list)
	if err != nil {
		return 0, err
	}
	if b.removesEach.Load() || bytes.ContainsRune(text, utf8.RuneError) { // it replaces what XML can't express
		return b.removeEach(ctx, keys)
	}
	sum := md5.Sum(text) //nolint:gosec // the server requires it
	r := request{method: http.MethodPost, query: url.Values{"delete": {""}}, header: contentMD5(sum[:])}
	var result struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Error   []*responseError
	}
	_, err = b.exchange(ctx, r.textBody(text), &result)
	if refusal, ok := errors.AsType[*responseError](err); ok && refusal.isUnknown() {
		if removed, err = b.removeEach(ctx, keys); err == nil {
			b.removesEach.Store(true)
		}
		return removed, err
	}
	if err != nil {
		return 0, b.fault(ctx, keys[0], err)
	}
	left := slices.DeleteFunc(result.Error, func(e *responseError) bool { return e.Code == "NoSuchKey" })
	if len(left) == 0 {
		return len(keys), nil
	}
	left[0].status = http.StatusOK
	key := keys[max(0, slices.Index(keys, left[0].Key))] // a server may name another one
	return max(0, len(keys)-len(left)), b.fault(ctx, key, left[0])
}

// isUnknown reports whether the server may not know the operation of the request.
func (e *responseError) isUnknown() bool {
	unknown := []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}
	return slices.Contains(unknown, e.status) && !e.isTemporary()
}

// removeEach removes each object with a request of its own, a few at the same time, until one fails. It returns the
// number of removed objects.
func (b *Bucket) removeEach(ctx context.Context, keys []string) (removed int, err error) {
	const requestsMax = 4
	var running sync.WaitGroup
	var taken, done atomic.Int64
	errs := make([]error, requestsMax)
	for i := range errs {
		running.Go(func() {
			for at := taken.Add(1); at <= int64(len(keys)); at = taken.Add(1) {
				if errs[i] = b.remove(ctx, keys[at-1], nil); errs[i] != nil {
					taken.Store(int64(len(keys)))
					return
				}
				done.Add(1)
			}
		})
	}
	running.Wait()
	return int(done.Load()), cmp.Or(errs...)
}
