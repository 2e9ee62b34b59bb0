package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Code is a number of the error catalogue. The constants of this package are the numbers that the operation may
// respond with; a newer server may have others. A Code is an error itself, for errors.Is:
//
//	if errors.Is(err, client.ExistsWithDifferentName) {
type Code int32

// Error returns the number.
func (c Code) Error() string { return "error " + strconv.Itoa(int(c)) }

// ErrUnknown is for errors.Is: the plant may be stored, and may not. Create it again with the same content to find out.
// Without it, a create that failed has stored nothing.
var ErrUnknown = errors.New("the plant may be stored")

// Error is the failure of a create.
type Error struct {
	ID        int64  // id of the plant; 0 for CreateJSON
	Status    int    // last response's; 0: the last attempt had none
	Code      Code   // 0: the last attempt had no response of Plant Store, but perhaps one of a proxy
	Message   string // last response's; for people
	RequestID string // last attempt's; the log of the server has it
	URL       string // last attempt's, with WithFallback
	Attempts  int
	Unknown   bool // the plant may be stored, by this attempt or an earlier one

	// RetryAfter is the pause that the last response asked for; 0: none.
	RetryAfter time.Duration

	// Err is why the last attempt had no response that can be read, or the error of the context that ended a pause.
	Err error
}

// Error returns a sentence without the token.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("create plant")
	if e.ID != 0 {
		fmt.Fprintf(&b, " %d", e.ID)
	}
	b.WriteString(": ")
	switch {
	case e.Err != nil && e.Message != "":
		fmt.Fprintf(&b, "%s (%v)", e.Message, e.Err)
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	default:
		b.WriteString(e.Message)
	}
	b.WriteString(" [")
	if e.Code != 0 {
		fmt.Fprintf(&b, "%v, ", e.Code)
	}
	fmt.Fprintf(&b, "request %s", e.RequestID)
	if e.URL != "" {
		fmt.Fprintf(&b, " to %s", e.URL)
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, ", %d attempts", e.Attempts)
	}
	if e.Unknown {
		b.WriteString(", the plant may be stored")
	}
	return b.String() + "]"
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the Code of the error, or ErrUnknown if the plant may be stored.
func (e *Error) Is(target error) bool {
	if code, ok := target.(Code); ok {
		return e.Code == code
	}
	return target == ErrUnknown && e.Unknown
}

// fail records that the last attempt had no response that can be read.
func (e *Error) fail(err error) {
	e.Status, e.Code, e.Message, e.RetryAfter, e.Err = 0, 0, "", 0, err
}

// refused records the response of the last attempt, and reports whether another attempt may succeed.
func (e *Error) refused(res *response) (again bool) {
	e.fail(nil)
	e.Status = res.status
	e.RetryAfter = retryAfter(res.header.Get("Retry-After"))
	var body struct {
		Error   Code   `json:"error"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(res.body, &body); err == nil && int(body.Error)/100 == e.Status {
		e.Code, e.Message = body.Error, body.Message
	} else { // a proxy responded
		e.Message = strings.TrimSpace(fmt.Sprintf("the response has the status %d %s",
			e.Status, http.StatusText(e.Status)))
		if location := res.header.Get("Location"); location != "" {
			e.Message += fmt.Sprintf("; it redirects to %q", location)
		}
	}
	if e.mayBeStored() {
		e.Unknown = true
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusTooManyRequests:
		return e.Code != TooManyFailures // else the credential is wrong
	}
	return false
}

// mayBeStored reports whether the plant of the last attempt may be stored although the response is an error. The 5xx
// responses of a proxy say nothing about the server behind it.
func (e *Error) mayBeStored() bool {
	if e.Code == 0 {
		return e.Status >= http.StatusInternalServerError
	}
	return e.Code == OutcomeUnknown || e.Code == Internal || e.Code == PlantDamaged
}

// lost records an attempt without a response, and reports whether another one may succeed; ctx is the create's.
func (e *Error) lost(ctx context.Context) (again bool) {
	if _, ok := errors.AsType[*notSentError](e.Err); !ok {
		e.Unknown = true
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
	return ctx.Err() == nil && !untrusted
}

// notSentError is for a request that was not sent.
type notSentError struct{ err error }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// retryAfter reads the header Retry-After (RFC 9110 section 10.2.3): seconds or a date.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
