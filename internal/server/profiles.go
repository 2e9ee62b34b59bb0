package server

import (
	"fmt"
	"net/http"
	webpprof "net/http/pprof"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// profiles returns the routes of net/http/pprof for the admin listener.
func profiles() []route {
	list := []route{
		{method: "GET", path: "/debug/pprof/", handle: fromHandler(http.HandlerFunc(webpprof.Index))},
		{method: "GET", path: "/debug/pprof/cmdline", handle: fromHandler(http.HandlerFunc(webpprof.Cmdline))},
		{method: "GET", path: "/debug/pprof/profile", handle: cpuProfile},
		{method: "GET", path: "/debug/pprof/symbol", handle: fromHandler(http.HandlerFunc(webpprof.Symbol))},
		{method: "GET", path: "/debug/pprof/trace", handle: executionTrace},
	}
	for _, name := range []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
		list = append(
			list, route{method: "GET", path: "/debug/pprof/" + name, handle: snapshot(webpprof.Handler(name))},
		)
	}
	for i := range list {
		list[i].scope, list[i].untimed = auth.ScopeAdmin, true
	}
	return list
}

const (
	profileTimeMax   = 60 * time.Second
	profileWriteTime = 30 * time.Second // to send a complete profile
)

// cpuProfile records a CPU profile for ?seconds=, 30 by default. The process
// can record one at a time.
func cpuProfile(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	start := func() error { return pprof.StartCPUProfile(w) }
	return record(w, r, 30*time.Second, "profile", start, pprof.StopCPUProfile)
}

// executionTrace records an execution trace for ?seconds=, 1 by default. The
// process can record one at a time.
func executionTrace(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	return record(w, r, time.Second, "trace", func() error { return trace.Start(w) }, trace.Stop)
}

// record records a profile until its time ends or its client disconnects. The
// handlers of net/http/pprof refuse a second profile with plain text and status
// 500, and do not limit the time.
func record(
	w http.ResponseWriter, r *http.Request, fallback time.Duration, name string, start func() error, stop func(),
) error {
	length, err := profileTime(r, fallback)
	if err != nil {
		return err
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(length + profileWriteTime)); err != nil {
		return fmt.Errorf("extend the write deadline: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if err := start(); err != nil { // nothing is written yet
		h.Del("Content-Disposition")
		return profileRunning()
	}
	defer stop()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
	return nil
}

// snapshot returns the function of a route for a profile of the runtime. With
// ?seconds= the response is the difference over that time; one such request may run
// at a time. net/http/pprof extends the write deadline and detects a disconnect.
func snapshot(h http.Handler) HandlerFunc {
	running := make(chan struct{}, 1) // has an element while a difference is recorded
	return func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
		if r.FormValue("seconds") == "" {
			h.ServeHTTP(w, r)
			return nil
		}
		length, err := profileTime(r, 0)
		if err != nil {
			return err
		}
		if length%time.Second != 0 {
			return badQuery(fmt.Sprintf(
				"seconds must be an integer for this profile; got %q", Shorten(r.FormValue("seconds")),
			))
		}
		if r.FormValue("debug") != "" {
			return badQuery("seconds and debug cannot be combined; omit one")
		}
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
		default:
			return profileRunning()
		}
		h.ServeHTTP(w, r)
		return nil
	}
}

// profileTime returns ?seconds=, or the default without it.
func profileTime(r *http.Request, fallback time.Duration) (time.Duration, error) {
	text := r.FormValue("seconds")
	if text == "" {
		return fallback, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0 && seconds <= profileTimeMax.Seconds()) { // true for NaN too
		return 0, badQuery(fmt.Sprintf("seconds must be above 0 and at most %d; got %q",
			int(profileTimeMax.Seconds()), Shorten(text)))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func badQuery(message string) error {
	return &plant.Error{Code: plant.CodeQueryInvalid, Message: message}
}

func profileRunning() error {
	return &plant.Error{
		Code:    plant.CodeProfileRunning,
		Message: "the server is recording a profile of this kind already; send the request again when it has ended",
	}
}
