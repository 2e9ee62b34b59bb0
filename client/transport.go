package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
)

// roundTripper sends requests by the transport of WithTransport.
type roundTripper struct {
	transport http.RoundTripper
	plants    *url.URL
}

// send implements sender.
func (t *roundTripper) send(ctx context.Context, r *request) (*response, error) {
	ctx, cancel := context.WithDeadline(ctx, r.deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.plants.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, &notSentError{err}
	}
	req.Header = r.header
	res, err := t.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return newResponse(res)
}

// close implements sender.
func (t *roundTripper) close() { (&http.Client{Transport: t.transport}).CloseIdleConnections() }
