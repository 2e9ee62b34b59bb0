package writepath_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/writepath"
)

// BenchmarkCreate measures the cost of a plant between its request and the engine, with an engine that stores nothing
// and several concurrent requests.
func BenchmarkCreate(b *testing.B) {
	for _, requests := range []int{1, 64, 256} {
		b.Run(fmt.Sprint("requests=", requests), func(b *testing.B) {
			s := mustNew(b, &stub{}, writepath.Limits{AnswerTimeout: time.Hour})
			b.Cleanup(s.Close)
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan error, requests)
			one := newPlant(1)
			b.ReportAllocs()
			b.ResetTimer()
			for range requests {
				go func() { // ends with the last request or the first error
					var err error
					for err == nil {
						if left.Add(-1) < 0 {
							break
						}
						_, err = s.Create(nil, auth.Principal{TokenID: 1}, one)
					}
					done <- err
				}()
			}
			for range requests {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
		})
	}
}
