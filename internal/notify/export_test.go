package notify

import (
	"context"
	"time"
)

// Look sends what is due at a time.
func (n *Notifier) Look(ctx context.Context, now time.Time) { n.look(ctx, now) }
