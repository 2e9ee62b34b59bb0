// Package adminapi is the HTTP API over the operations of package admin, on the admin listener of a server.
// openapi.yaml describes it. The console uses its parts that send and receive files.
package adminapi

import (
	"context"
	_ "embed" // for openapi.yaml
	"log/slog"
	"sync"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/apidoc"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

//go:embed openapi.yaml
var documentSource []byte

// Document returns the OpenAPI document of the API. The caller must not change it.
var Document = sync.OnceValues(func() (*apidoc.Document, error) {
	return apidoc.New(documentSource, nil, plant.Catalogue())
})

// API is the HTTP API. Its methods are handlers of type server.HandlerFunc.
type API struct {
	service  *admin.Service
	log      *slog.Logger
	uploads  server.UploadLimits // for the files of imports
	partTime time.Duration       // in which a client must accept each part of a Stream
}

// New returns the API over the operations of a server.
func New(service *admin.Service, log *slog.Logger) *API {
	return &API{
		service: service, log: log, partTime: 30 * time.Second,
		uploads: server.UploadLimits{Bytes: 16 << 30, Idle: time.Minute},
	}
}

// call is a request with its query.
type call struct {
	*server.Call

	query query
}

// stream returns the function of a route that writes its own response. The query may have the named parameters.
func stream(do func(*call) error, parameters ...string) server.HandlerFunc {
	return func(c *server.Call) error {
		q, err := parseQuery(c.URL.RawQuery, parameters)
		if err != nil {
			return err
		}
		return do(&call{c, q})
	}
}

// respond returns the function of a route that responds with a value as JSON. The query may have the named parameters.
func respond(do func(*call) (any, error), parameters ...string) server.HandlerFunc {
	return stream(func(c *call) error {
		value, err := do(c)
		if err != nil {
			return err
		}
		return c.Respond(value)
	}, parameters...)
}

// list returns the function of a route that responds with a page of a list without filters.
func list[P any](page func(context.Context, admin.ListQuery) (P, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		limit, err := c.query.limit(admin.PageMax)
		if err != nil {
			return nil, err
		}
		return page(c.Context(), admin.ListQuery{Cursor: c.query.Get("cursor"), Limit: limit})
	}
}

// change returns the function of a route that changes what the body of a request describes.
func change[T, R any](do func(context.Context, T, audit.Origin) (R, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		body, err := decode[T](c, bodyBytesMax)
		if err != nil {
			return nil, err
		}
		return do(c.Context(), body, c.Origin())
	}
}

func (a *API) state(c *call) (any, error) { return a.service.State(c.Context()), nil }

func (a *API) listSettings(*call) (any, error) {
	return admin.SettingList{Settings: a.service.Settings()}, nil
}
