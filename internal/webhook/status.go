package webhook

import "time"

// Status describes the deliveries of a Sender to a webhook, in the form of the admin API. Other servers of the store
// have their own. Times are in UTC.
type Status struct {
	Address     string    `json:"-"`                     // as Webhook.Address
	DeliveredAt time.Time `json:"delivered_at,omitzero"` // the last delivery
	FailedAt    time.Time `json:"failed_at,omitzero"`    // the last attempt that failed
	Reason      string    `json:"reason,omitempty"`      // why it failed
	Failures    int       `json:"failures"`              // attempts that failed since the last delivery
	PausedUntil time.Time `json:"paused_until,omitzero"` // no claims until then
	Gone        bool      `json:"gone"`                  // the receiver has answered 410: no attempts until a restart
	Dead        int64     `json:"-"`                     // dead letters of all servers, when they were counted last
	Oldest      time.Time `json:"-"`                     // of the events to deliver, counted then; zero: there was none
}

// Status returns the state of the deliveries by Webhook.ID. A nil Sender has none.
func (s *Sender) Status() map[int64]Status {
	all := map[int64]Status{}
	if s == nil {
		return all
	}
	for id, r := range s.receivers {
		r.mu.Lock()
		all[id] = r.status
		r.mu.Unlock()
	}
	return all
}
