package webhook

import "time"

// Status describes the deliveries of a Sender to a webhook. Other servers of the store have
// their own.
type Status struct {
	Address   string    // of the webhook, as Webhook.Address
	Delivered time.Time // last delivery; the zero value before the first one
	Failed    time.Time // last attempt that failed; the zero value before the first one
	Reason    string    // of that failure
	Failures  int       // attempts that failed since the last delivery
	Paused    time.Time // no claims until then; the zero value for none
	Gone      bool      // the receiver has answered 410: no attempts until a restart
	Dead      int64     // dead letters of all servers, when they were counted last
}

// Status returns the state of the deliveries by Webhook.ID. A nil Sender has none.
func (s *Sender) Status() map[int64]Status {
	all := map[int64]Status{}
	if s == nil {
		return all
	}
	for _, r := range s.receivers {
		r.mu.Lock()
		all[r.webhook.ID] = r.status
		r.mu.Unlock()
	}
	return all
}
