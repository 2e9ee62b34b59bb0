package server

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/limit"
	"plantstore/internal/plant"
)

// Limits are the limits of requests. The API document shows all of them except IdleTimeout.
type Limits struct {
	BodyMax        int64         // bytes of a body
	HeaderMax      int           // bytes of the request line and headers together; 4 KiB are always allowed
	RequestTimeout time.Duration // for a request to arrive whole
	AnswerTimeout  time.Duration // for the response after that
	IdleTimeout    time.Duration // for the next request on a connection
	QueueMax       int           // plants that may wait for the next commit
	AuthFailures   int           // failed credentials of an address per minute; 0: no limit
	Rate           int           // requests of a credential per second, which may come at once; 0: no limit
	Concurrency    int           // requests of a credential at the same time; 0: no limit
}

// networksMax is the number of networks whose failures the server counts separately.
const networksMax = 10_000

// failures limits the failed credentials of each network of clients. Both listeners share it.
type failures struct {
	buckets *limit.Buckets[limit.Network]
	log     *slog.Logger
	lines   limit.LogLines
}

// newFailures returns a limit of failures per minute, or nil for 0.
func newFailures(perMinute int, log *slog.Logger) *failures {
	if perMinute == 0 {
		return nil
	}
	return &failures{
		buckets: limit.NewBuckets[limit.Network](perMinute, perMinute, time.Minute, networksMax),
		log:     log,
	}
}

// logRefusal counts a refused request. It logs at most one line a second.
func (f *failures) logRefusal(client string) {
	if n := f.lines.Add("", 1); n > 0 {
		f.log.Warn("failed credentials refused", "requests", n, "client", client)
	}
}

// credentialsMax is the number of credentials whose requests the server counts separately.
const credentialsMax = 10_000

// quotas limits the requests of each credential.
type quotas struct {
	rate   *limit.Buckets[int64] // nil: no limit
	slots  *limit.Slots[int64]   // nil: no limit
	policy []string              // the value of RateLimit-Policy
}

// newQuotas returns the quotas of the limits, or nil without any.
func newQuotas(l Limits) *quotas {
	if l.Rate == 0 && l.Concurrency == 0 {
		return nil
	}
	q := &quotas{}
	var policy []string
	if l.Rate > 0 {
		q.rate = limit.NewBuckets[int64](l.Rate, l.Rate, time.Second, credentialsMax)
		policy = append(policy, fmt.Sprintf(`"rate";q=%d;w=1`, l.Rate))
	}
	if l.Concurrency > 0 {
		q.slots = limit.NewSlots[int64](l.Concurrency)
		policy = append(policy, fmt.Sprintf(`"concurrency";q=%d;qu="concurrent-requests"`, l.Concurrency))
	}
	q.policy = []string{strings.Join(policy, ", ")}
	return q
}

// adminAtOnce is the number of requests of a credential that the admin listener serves at the same time.
const adminAtOnce = 64

// handle calls the function of a route if the quotas of the credential allow it. Every response has the fields of
// draft-ietf-httpapi-ratelimit-headers-11.
func (q *quotas) handle(c *Call, next HandlerFunc) error {
	header, key := c.Header(), c.Principal.TokenID
	header["Ratelimit-Policy"] = q.policy
	var state []byte
	if q.slots != nil {
		free, ok := q.slots.Acquire(key)
		state = fmt.Appendf(state, `"concurrency";r=%d`, free)
		header["Ratelimit"] = []string{string(state)}
		if !ok {
			return plant.Errorf(plant.CodeTooManyAtOnce,
				"nothing was stored because this credential has too many requests at the same time; send it again")
		}
		defer q.slots.Release(key)
	}
	if q.rate != nil {
		level := q.rate.Take(key)
		if len(state) > 0 {
			state = append(state, ", "...)
		}
		state = fmt.Appendf(state, `"rate";r=%d;t=%s`, level.Units, wholeSeconds(level.NextIn))
		header["Ratelimit"] = []string{string(state)}
		if !level.Taken {
			header["Retry-After"] = []string{wholeSeconds(level.NextIn)}
			return plant.Errorf(plant.CodeRateExceeded,
				"nothing was stored because this credential sent more requests than its rate allows; send it again")
		}
	}
	return next(c)
}

// wholeSeconds returns a time for Retry-After, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
