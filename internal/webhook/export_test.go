package webhook

import (
	"crypto/tls"
	"net/http"
	"time"
)

// WaitMax is the longest wait after a number of failures.
var WaitMax = waitMax

// Event returns the header webhook-id and the body of the event of a delivery.
var Event = event

// IsPublic reports whether deliveries may connect to an address.
var IsPublic = isPublic

// Trust sets the TLS configuration of the deliveries.
func (s *Sender) Trust(c *tls.Config) { s.client.http.Transport.(*http.Transport).TLSClientConfig = c }

// Maintain expires and counts the deliveries.
func (s *Sender) Maintain() { s.expire(); s.count() }

// RetryAfterMax is the longest wait that a receiver can demand.
const RetryAfterMax time.Duration = retryAfterMax
