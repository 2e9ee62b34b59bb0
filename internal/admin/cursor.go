package admin

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"

	"plantstore/internal/plant"
)

// PageMax is the largest number of elements on a page.
const PageMax = 1000

// ListQuery selects a page of a list without filters.
type ListQuery struct {
	Cursor string // Next of the previous page; empty: the first page
	Limit  int    // from 1 to PageMax
}

// firstID is the smallest id.
const firstID = math.MinInt64

// A cursor names the start of a page: cursorVersion, a number in 8 bytes, and a text for lists that need more, in
// base64url.
const (
	cursorVersion = 1
	cursorBytes   = 9
)

func newCursor(n int64, text string) string {
	b := binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(n))
	return base64.RawURLEncoding.EncodeToString(append(b, text...))
}

// parseCursor returns the content of a cursor; the smallest number for an empty one.
func parseCursor(cursor string) (n int64, text string, err error) {
	if cursor == "" {
		return firstID, "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || strings.ContainsAny(cursor, "\r\n") || len(b) < cursorBytes || b[0] != cursorVersion {
		return 0, "", errCursor // the decoder ignores line ends
	}
	return int64(binary.BigEndian.Uint64(b[1:])), string(b[cursorBytes:]), nil
}

var errCursor = plant.InvalidQuery(
	"cursor must be the next of an earlier page; send the request without it for the first page")

// cursorAfter returns the cursor of the page that starts after an id; empty if no id is greater.
func cursorAfter(id int64) string {
	if id == math.MaxInt64 {
		return ""
	}
	return newCursor(id+1, "")
}

// parseIDCursor returns the smallest id of the page of a cursor; the smallest id of all for an empty cursor.
func parseIDCursor(cursor string) (from int64, err error) {
	from, text, err := parseCursor(cursor)
	if text != "" {
		err = errCursor
	}
	return from, err
}

// cut returns the first elements of a list up to a limit, and the cursor of the next page, which is empty after the
// last page. 0 is no limit.
func cut[E any](list []E, limit int, cursor func(last E) string) (page []E, next string) {
	if limit == 0 || len(list) <= limit {
		return list, ""
	}
	return list[:limit], cursor(list[limit-1])
}
