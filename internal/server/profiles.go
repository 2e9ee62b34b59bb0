package server

import (
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// profiles returns the routes of net/http/pprof for the admin listener. They are the same in a process, also after a
// reload, because the process records one profile of a kind at a time.
var profiles = sync.OnceValue(func() []Route {
	list := []Route{
		{Path: "", Handle: fromHandler(http.HandlerFunc(pprof.Index))},
		{Path: "cmdline", Handle: fromHandler(http.HandlerFunc(pprof.Cmdline))},
		{Path: "symbol", Handle: fromHandler(http.HandlerFunc(pprof.Symbol))},
		{Path: "profile", Handle: profile(http.HandlerFunc(pprof.Profile), true)},
		{Path: "trace", Handle: profile(http.HandlerFunc(pprof.Trace), true)},
	}
	for _, name := range []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
		list = append(list, Route{Path: name, Handle: profile(pprof.Handler(name), false)})
	}
	for i := range list {
		list[i].Method, list[i].Path = "GET", "/debug/pprof/"+list[i].Path
		list[i].Scope, list[i].Untimed = auth.ScopeAdmin, true
	}
	return list
})

// profile returns the function of a route for a profile. The profile lasts ?seconds=; if always is false, it is a
// snapshot without that parameter. net/http/pprof has no limit of the time, and refuses a second profile with plain
// text and status 500. It extends the write deadline and detects a disconnect.
func profile(h http.Handler, always bool) HandlerFunc {
	running := make(chan struct{}, 1) // has an element while a profile is recorded
	return func(c *Call) error {
		seconds := c.FormValue("seconds")
		if seconds == "" && !always {
			h.ServeHTTP(c, c.Request)
			return nil
		}
		const secondsMax = 60
		if n, err := strconv.Atoi(seconds); seconds != "" && (err != nil || n < 1 || n > secondsMax) {
			return plant.InvalidQuery("seconds must be an integer from 1 to %d; got %q", secondsMax, Shorten(seconds))
		}
		if c.FormValue("debug") != "" {
			return plant.InvalidQuery("seconds and debug cannot be combined; omit one")
		}
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
		default:
			return plant.Errorf(plant.CodeProfileRunning,
				"the server is recording a profile of this kind already; send the request again when it has ended")
		}
		h.ServeHTTP(c, c.Request)
		return nil
	}
}
