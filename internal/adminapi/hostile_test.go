package adminapi_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Paths and parameters of an attacker select nothing outside the API: neither another route than their text names, nor
// a file beside the backups.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	h := start(t, setup{backups: true, plants: []store.Create{create(5, "Acer", plant.Tag{})}})
	made := h.job(h.post("/backups", "")).Backup
	for target, want := range map[string]int{
		"/plants/5":                          200,
		"/plants/%35":                        200, // the same path (RFC 3986 section 6.2.2.2)
		"/plants/5/":                         404,
		"//plants/5":                         404,
		"/./plants/5":                        404,
		"/plants/../plants/5":                404,
		"/plants/%2e%2e/plants/5":            404,
		"/plants/5%2F":                       404,
		"/plants/5%00":                       400,
		"/plants/5%20":                       400,
		"/plants/0x5":                        400,
		"/plants/5e0":                        400,
		"/plants/%EF%BC%95":                  400, // a full-width digit
		"/plants/9223372036854775808":        400,
		"/plants/-9223372036854775808":       404,
		"/PLANTS/5":                          404,
		"/plants;a=b":                        404,
		"/plants?limit=1%00":                 400,
		"/plants?limit=%EF%BC%91":            400,
		"/plants?limit=1e2":                  400,
		"/plants?limit=1#x":                  200, // a client sends no fragment
		"/plants?limit=9223372036854775808":  400,
		"/backups/%2e%2e/content":            404,
		"/backups/plants.db/content":         404,
		"/backup-jobs/1%2F..%2F1":            404,
		"/audit?since=0000-01-01T00:00:00Z":  200,
		"/audit?since=99999-01-01T00:00:00Z": 400,

		"/plants/" + strings.Repeat("9", 8000):               400,
		"/plants?cursor=" + strings.Repeat("A", 9):           400,
		"/plants?cursor=" + strings.Repeat("A", 8000):        400,
		"/plants?cursor=" + cursorOf(1, "12345678"):          200,
		"/plants?cursor=" + cursorOf(1, "123456789"):         400, // that of a page of backups
		"/plants?cursor=" + cursorOf(2, "12345678"):          400,
		"/plants?cursor=" + cursorOf(1, "12345678") + "%3D":  400,
		"/plants?cursor=" + cursorOf(1, "12345678") + "%0A":  400,
		"/plants/search?name=" + strings.Repeat("%00", 2000): 200,

		"/backups/" + made + "/content":                  200,
		"/backups/..%2F" + made + "/content":             404,
		"/backups/..%5C" + made + "/content":             404,
		"/backups/" + made + "%00/content":               404,
		"/backups/" + made + ".json/content":             404,
		"/backups/" + strings.ToUpper(made) + "/content": 404,

		"/backups?cursor=" + cursorOf(1, "12345678"):                             400, // that of a page of plants
		"/backups?cursor=" + cursorOf(1, "\xff\xff\xff\xff\xff\xff\xff\xff../x"): 200,
		"/credentials?cursor=" + cursorOf(1, "\x7f\xff\xff\xff\xff\xff\xff\xff"): 200,
		"/audit?actor=" + strings.Repeat("%F0%9F%8C%B9", 1000):                   200,
		"/audit/verify?expect=1:" + strings.Repeat("00", 32):                     200,
	} {
		res := h.open(http.MethodGet, target)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%.100s: got %d, want %d", target, res.StatusCode, want)
		}
	}
	if strings.Contains(h.log.string(), "level=ERROR") || strings.Contains(h.log.string(), "error_code=50001") {
		t.Errorf("the log has an error:\n%s", h.log.string())
	}
}

// cursorOf returns a cursor with a version and a content.
func cursorOf(version byte, content string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{version}, content...))
}

// A request with a large header that selects the form of the response gets the one form that there is.
func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	long := strings.Repeat("application/x;q=0.1, ", 700)
	for _, headers := range [][]string{
		{"Accept: " + long},
		{"Accept-Encoding: " + strings.Repeat("gzip;q=0.1, ", 1000)},
		{"Accept-Language: " + long},
		{"Range: bytes=" + strings.Repeat("0-0,", 3000)},
		{"If-None-Match: " + strings.Repeat(`"x",`, 3000)},
		{"X-HTTP-Method-Override: DELETE"},
		{"X-Forwarded-Host: evil.example", "X-Forwarded-Prefix: /evil", "X-Original-URL: /api/v1/credentials"},
	} {
		res := h.send(http.MethodGet, "/plants", "", headers...)
		check(t, headers[0][:20], h.read(res), ok(`{"plants":[]}`))
		_ = res.Body.Close()
	}
	res := h.send(http.MethodGet, "/plants", "", "Accept: "+strings.Repeat("a", 64<<10))
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header beyond the limit: got %d", res.StatusCode)
	}
}
