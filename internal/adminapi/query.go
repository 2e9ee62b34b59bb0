package adminapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// query is the query of a request. Each parameter occurs once.
type query struct{ url.Values }

// parseQuery parses a query. It refuses a parameter that is not in names, because a misspelt filter would return other
// plants, and one that occurs twice.
func parseQuery(text string, names []string) (query, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return query{}, plant.InvalidQuery("the query is not of the form name=value&name=value with percent-encoding")
	}
	for name, list := range values {
		switch known := slices.Contains(names, name); {
		case !known && len(names) == 0:
			return query{}, plant.InvalidQuery("the path has no query parameters; got %q", server.Shorten(name))
		case !known:
			return query{}, plant.InvalidQuery("unknown query parameter %q; use %s", server.Shorten(name),
				strings.Join(names, ", "))
		case len(list) > 1:
			return query{}, plant.InvalidQuery("query parameter %s occurs %d times; send it once", name, len(list))
		case list[0] == "" && name == "cursor":
			return query{}, plant.InvalidQuery("cursor is empty; omit it for the first page")
		case !utf8.ValidString(list[0]):
			return query{}, plant.InvalidQuery("query parameter %s must be UTF-8 with percent-encoding", name)
		}
	}
	return query{values}, nil
}

// mustBe returns the error for a parameter that breaks a rule.
func mustBe(name, rule, got string) error {
	return plant.InvalidQuery("%s must be %s; got %q", name, rule, server.Shorten(got))
}

// tag returns the parameter tag; no tag without it.
func (q query) tag() plant.Tag {
	if !q.Has("tag") {
		return plant.Tag{}
	}
	return plant.Tagged(q.Get("tag"))
}

// integer returns a parameter from least to most, or a default without it.
func (q query) integer(name string, fallback, least, most int) (int, error) {
	if !q.Has(name) {
		return fallback, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < least || n > most {
		return 0, mustBe(name, "an integer from "+strconv.Itoa(least)+" to "+strconv.Itoa(most), q.Get(name))
	}
	return n, nil
}

// boolean returns a parameter that is true or false; false without it.
func (q query) boolean(name string) (bool, error) {
	switch text := q.Get(name); {
	case text == "true":
		return true, nil
	case q.Has(name) && text != "false":
		return false, mustBe(name, "true or false", text)
	}
	return false, nil
}

// moment returns a time; the zero time without the parameter.
func (q query) moment(name string) (t time.Time, err error) {
	if !q.Has(name) {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, q.Get(name)); err != nil {
		return t, mustBe(name, "a time of the form 2026-11-22T09:30:00Z", q.Get(name))
	}
	return t, nil
}

// limit returns the largest number of elements in the response.
func (q query) limit(most int) (int, error) {
	const fallback = 100
	return q.integer("limit", fallback, 1, most)
}

// id returns the id in the path of a request.
func (c *call) id() (int64, error) {
	id, err := strconv.ParseInt(c.PathValue("id"), 10, 64)
	if err != nil {
		return 0, mustBe("the id in the path", "a 64-bit integer", c.PathValue("id"))
	}
	return id, nil
}
