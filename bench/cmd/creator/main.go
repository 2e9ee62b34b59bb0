// Creator creates plants with Plant Store's Go client for a time, as wrk does with load.lua: one plant a request, each
// with a new random id, on a number of connections. It prints the same line of results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"plantstore/client"
)

// lastID limits the ids, so that each has 16 digits, as those of load.lua.
const firstID, lastID = 1e15, 1 << 53

func main() {
	url := flag.String("url", "", "base `URL`")
	connections := flag.Int("connections", 64, "`number` of plants that are created at the same time")
	duration := flag.Duration("duration", 10*time.Second, "`time` of the load")
	flag.Parse()
	if err := create(os.Stdout, *url, os.Getenv("PLANTSTORE_TOKEN"), *connections, *duration); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // the exit code of main
	}
}

// create creates plants and writes the results. A create that fails is not repeated, and counts.
func create(w io.Writer, url, token string, connections int, d time.Duration) error {
	c, err := client.New(url, client.WithToken(token), client.WithRetryFor(0))
	if err != nil {
		return err
	}
	defer c.Close()
	workers := make([]worker, connections)
	began := time.Now()
	var running sync.WaitGroup
	for i := range workers {
		running.Go(func() { workers[i].run(c, began.Add(d)) })
	}
	running.Wait()
	took := time.Since(began)
	var all worker
	for _, w := range workers {
		all.latencies = append(all.latencies, w.latencies...)
		all.status += w.status
		all.read += w.read
	}
	if len(all.latencies) == 0 {
		return errors.New("no request")
	}
	slices.Sort(all.latencies)
	at := func(part float64) int64 {
		return all.latencies[int(part*float64(len(all.latencies)-1))].Microseconds()
	}
	line, err := json.Marshal(map[string]int64{
		"requests": int64(len(all.latencies)), "micros": took.Microseconds(), "p50": at(0.5), "p99": at(0.99),
		"p999": at(0.999), "max": at(1), "status": all.status, "read": all.read,
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, string(line))
	return err
}

// worker creates one plant after the other.
type worker struct {
	latencies    []time.Duration
	status, read int64 // failures with and without a response
}

func (w *worker) run(c *client.Client, until time.Time) {
	tag := "made"
	for now := time.Now(); now.Before(until); {
		id := firstID + rand.Int64N(lastID-firstID) //nolint:gosec // not a secret
		_, err := c.Create(context.Background(), client.NewPlant{ID: id, Name: "Made for measuring", Tag: &tag})
		if e, ok := errors.AsType[*client.Error](err); ok {
			if e.Status == 0 {
				w.read++
			} else {
				w.status++
			}
		}
		began := now
		now = time.Now()
		w.latencies = append(w.latencies, now.Sub(began))
	}
}
