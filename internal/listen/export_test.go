package listen

import (
	"testing"
	"time"
)

// ExpireAccept makes Accept fail.
func (l *Listener) ExpireAccept(t *testing.T) {
	t.Helper()
	if err := l.tcp.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}
