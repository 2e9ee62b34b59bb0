package s3

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRemoveSome removes 100 objects from a server, several at the same time, until one is not removed.
func TestRemoveSome(t *testing.T) {
	t.Parallel()
	for refused, requestsMax := range map[string]int{"": 100, "p-9": 10 + 2*removesAtOnce} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var all, running, most int
			b := openServed(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				all, running = all+1, running+1
				most = max(most, running)
				mu.Unlock()
				<-time.After(time.Second) // until the others wait too
				mu.Lock()
				defer mu.Unlock()
				if running--; refused != "" && strings.HasSuffix(r.URL.Path, refused) {
					w.WriteHeader(http.StatusForbidden)
				}
			})
			keys := make([]string, 100)
			for i := range keys {
				keys[i] = fmt.Sprint("p-", i)
			}
			err := b.Remove(t.Context(), keys...)
			if errors.Is(err, ErrDenied) != (refused != "") || refused == "" && err != nil {
				t.Errorf("%q refused: %v", refused, err)
			}
			if want := "s3://nursery-backups/" + refused; err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			if mu.Lock(); all > requestsMax || most != removesAtOnce {
				t.Errorf("%q refused: %d requests, %d of them at the same time", refused, all, most)
			}
			mu.Unlock()
		})
	}
}
