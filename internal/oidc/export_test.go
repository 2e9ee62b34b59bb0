package oidc

import "net/http"

// NewWithTransport is New with another transport for the requests to the issuer.
func NewWithTransport(c Config, t http.RoundTripper) (*Verifier, error) { return newVerifier(c, t) }
