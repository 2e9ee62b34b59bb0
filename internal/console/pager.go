package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pager has the links of a page of a list. The lists have cursors instead of page numbers, so the address of a page
// contains the starts of the pages before it.
type pager struct {
	Name                  string // what the rows are, such as plants
	First, Previous, Next string // addresses; empty: there is no such page
	From, To              int64  // numbers of the first and the last row of the page; 0: the page has none
	All                   int64  // number of rows of the list; 0: unknown
}

// Several reports whether the list has more than this page.
func (p pager) Several() bool { return p.Previous != "" || p.Next != "" || p.First != "" }

// pagesBack is the number of pages that an address contains, so "Previous" goes that far back.
const pagesBack = 30

// newPager returns the links of the page of a request. rows is the number of its rows, and next the cursor of the next
// page; empty: this is the last one.
func newPager(r *http.Request, name, path string, rows int, next string) pager {
	q := r.URL.Query()
	before, cursor := position(q.Get("at"))
	back := q["back"]
	link := func(at string, back []string) string {
		values := url.Values{}
		filters := []string{"name", "tag", "kind", "state", "action", "actor", "since", "until"} // of the lists
		for _, key := range filters {
			if q.Has(key) {
				values.Set(key, q.Get(key))
			}
		}
		if at != "" {
			values.Set("at", at)
		}
		if len(back) > 0 {
			values["back"] = back
		}
		return strings.TrimSuffix(path+"?"+values.Encode(), "?")
	}
	p := pager{Name: name}
	if rows > 0 {
		p.From, p.To = before+1, before+int64(rows)
	}
	if next != "" {
		back := slices.Concat(back, []string{mark(before, cursor)})
		p.Next = link(mark(before+int64(rows), next), back[max(0, len(back)-pagesBack):])
	}
	if last := len(back) - 1; last >= 0 {
		p.Previous = link(back[last], back[:last])
	}
	if cursor != "" && len(back) != 1 {
		p.First = link("", nil)
	}
	return p
}

// mark returns the start of a page in an address: the number of rows before it and its cursor. The first page has none.
func mark(before int64, cursor string) string { return strconv.FormatInt(before, 10) + "." + cursor }

// position returns the parts of a mark. Addresses come from outside, so a mark may be any text.
func position(mark string) (before int64, cursor string) {
	number, cursor, _ := strings.Cut(mark, ".")
	before, err := strconv.ParseInt(number, 10, 64)
	const rowsMax = 1 << 53
	if err != nil || before < 0 || before > rowsMax {
		before = 0
	}
	return before, cursor
}

// cursorOf returns the cursor of the page of a request; empty: the first page.
func cursorOf(r *http.Request) string {
	_, cursor := position(r.URL.Query().Get("at"))
	return cursor
}
