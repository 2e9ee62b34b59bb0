package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/plant"
)

// Upload is the body of a request that is too large for the memory and for Limits.RequestTimeout. One goroutine may
// call Read. The other methods are safe for concurrent use.
type Upload struct {
	call     *Call
	body     io.ReadCloser
	control  *http.ResponseController
	limits   UploadLimits
	received atomic.Int64 // bytes

	mu    sync.Mutex
	whole bool  // the end of the body arrived before ended was set; guarded by mu, with the read deadline
	ended error // the cause of the context of Within, which has ended; guarded by mu
}

// UploadLimits are the limits of an Upload.
type UploadLimits struct {
	Bytes int64         // largest body
	Idle  time.Duration // in which each part must arrive
}

// NewUpload returns the body of the request. The caller calls End before it responds. The error is a *plant.Error: the
// body is too large by its Content-Length, or has a Content-Encoding.
func (c *Call) NewUpload(l UploadLimits) (*Upload, error) {
	if err := checkCoding(c.Request.Header); err != nil {
		return nil, err
	}
	u := &Upload{call: c, body: c.Body, control: http.NewResponseController(c), limits: l}
	if c.ContentLength > l.Bytes {
		c.Header().Set("Connection", "close") // the body is unread
		return nil, u.tooLarge()
	}
	return u, nil
}

func (u *Upload) tooLarge() error {
	return plant.Errorf(plant.CodeBodyTooLarge, "the body is larger than %d bytes", u.limits.Bytes)
}

// Within returns a function that opens a reader of file, which reads the body or a part of it. When the context ends, a
// running Read and all later ones return its cause, until Close.
func (u *Upload) Within(file io.Reader) func(context.Context) io.ReadCloser {
	return func(ctx context.Context) io.ReadCloser {
		r := &uploadReader{Reader: file, upload: u}
		r.stop = context.AfterFunc(ctx, func() { r.end(context.Cause(ctx)) })
		return r
	}
}

// uploadReader is the reader of Within.
type uploadReader struct {
	io.Reader

	upload *Upload
	stop   func() bool // the call of end
	closed bool        // guarded by upload.mu
}

// end ends the reads. After Close it must not change the read deadline, which may be for the next request. After the
// end of the body a deadline would end the read by which net/http detects a disconnect, and so cancel all later
// requests of the connection.
func (r *uploadReader) end(cause error) {
	u := r.upload
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.closed {
		return
	}
	u.ended = cause
	if !u.whole {
		_ = u.control.SetReadDeadline(time.Unix(1, 0)) // fails if the client has disconnected; then Read fails too
	}
}

// Close implements io.Closer. It does not wait for a call of end.
func (r *uploadReader) Close() error {
	r.stop()
	r.upload.mu.Lock()
	defer r.upload.mu.Unlock()
	r.closed = true
	return nil
}

// Read implements io.Reader. The error is io.EOF, the cause of the context of Within, or a *plant.Error.
func (u *Upload) Read(p []byte) (int, error) {
	if err := u.begin(); err != nil {
		return 0, err
	}
	n, err := u.body.Read(p)
	if err != nil {
		err = u.readError(err)
	}
	if u.received.Add(int64(n)) > u.limits.Bytes {
		return 0, u.tooLarge()
	}
	return n, err
}

// begin sets the deadline of a Read, unless the end of the body has arrived.
func (u *Upload) begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.ended != nil:
		return u.ended
	case u.whole:
		return nil
	}
	if err := u.control.SetReadDeadline(time.Now().Add(u.limits.Idle)); err != nil {
		return fmt.Errorf("extend the read deadline: %w", err)
	}
	return nil
}

// readError returns the error of Read for an error of the body.
func (u *Upload) readError(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
		u.call.hasArrived()
		if u.ended == nil { // otherwise net/http's read may have ended already, so End closes the connection
			u.whole = true
			// net/http detects a disconnect by a read, which must not time out.
			_ = u.control.SetReadDeadline(time.Time{}) // fails if the client has disconnected
		}
		return io.EOF
	case u.ended != nil:
		return u.ended
	case errors.Is(err, os.ErrDeadlineExceeded):
		return plant.Errorf(plant.CodeRequestTimeout, "no part of the body arrived within %s", u.limits.Idle)
	}
	return plant.Errorf(plant.CodeBodyIncomplete, "the body ended before its announced length, or has malformed chunks")
}

// Received returns the number of bytes that have arrived.
func (u *Upload) Received() int64 { return u.received.Load() }

// End prepares the response: it extends the write deadline, because the upload may have taken longer. The server closes
// the connection after the response if a part of the body is unread, or if the body ended after the context of Within.
func (u *Upload) End() {
	const responseTimeMax = 30 * time.Second
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.whole {
		u.call.Header().Set("Connection", "close")
	}
	_ = u.control.SetWriteDeadline(time.Now().Add(responseTimeMax)) // fails if the client has disconnected
}
