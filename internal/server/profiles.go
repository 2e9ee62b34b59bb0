package server

import (
	"net/http"
	"net/http/pprof"

	"plantstore/internal/auth"
)

// profiles are the routes of net/http/pprof, for the admin door.
func profiles() []route {
	list := []route{
		{method: "GET", path: "/debug/pprof/", handle: plain(pprof.Index)},
		{method: "GET", path: "/debug/pprof/cmdline", handle: plain(pprof.Cmdline)},
		{method: "GET", path: "/debug/pprof/profile", handle: plain(pprof.Profile)},
		{method: "GET", path: "/debug/pprof/symbol", handle: plain(pprof.Symbol)},
		{method: "GET", path: "/debug/pprof/trace", handle: plain(pprof.Trace)},
	}
	for _, name := range []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
		list = append(list, route{method: "GET", path: "/debug/pprof/" + name, handle: plain(pprof.Handler(name).ServeHTTP)})
	}
	for i := range list {
		list[i].open = true
	}
	return list
}

func plain(f http.HandlerFunc) handler {
	return func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
		f(w, r)
		return nil
	}
}
