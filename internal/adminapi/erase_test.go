package adminapi_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// TestEraseAndCorrect erases and corrects plants, after requests that change nothing: bad ones, dry runs, and those for
// plants that the store does not have.
func TestEraseAndCorrect(t *testing.T) {
	t.Parallel()
	h := start(t, setup{plants: []store.Create{
		create(-7, "Acer plantanoides", plant.Tagged("\uFFFD")), create(1, "Rosa", plant.Tag{}),
		create(2, "Tilia", plant.Tag{}),
	}})
	admin := "Authorization: Bearer " + h.admins
	list := func(n int) string { return strings.Trim(strings.Repeat("-9223372036854775808,", n), ",") }
	byAdmin := regexp.MustCompile(`"created_at":"[^"]+","created_by":"[^"]+"`)
	which := refused(40062, "say which plants: send ids, or creator, since, until or tag")
	none, unpaired := ok(`{"plants":0}`), " contains an unpaired surrogate; send the whole pair or the character in UTF-8"
	const acer = `{"id":-7,"name":"Acer 🍁","tag":"a\u0001\n` + "\u202e\uFFFD" + `",CREATED}`
	for _, step := range []struct {
		path, body string
		want       response
	}{
		{"erase", `{}`, which},
		{"erase", `{"ids":[]}`, which},
		{"erase", `{"cursor":"AQAAAAAAAAAA"}`, which},
		{"erase", `{"ids":[1,1.5]}`, refused(40062, "ids must be a list of 64-bit integers; got [1,1.5]")},
		{"erase", `{"ids":null}`, refused(40062, "ids must be a list of 64-bit integers; got null")},
		{"erase", `{"ids":[` + list(101) + `]}`, refused(40062, "ids has 101 ids; send at most 100 at a time")},
		{"erase", `{"ids":[` + list(100) + `]}`, none},
		{"erase", `{"tag":"","cursor":"made-up"}`, refused(40061,
			"cursor must be the next of an earlier page; send the request without it for the first page")},
		{"erase", `{"tag":"\ud800"}`, refused(40007, "tag"+unpaired)},
		{"erase", `{"tag":"\udc00\ud800"}`, refused(40007, "tag"+unpaired)},
		{"erase", `{"creator":"id 99"}`, none},
		{"erase", `{"since":"2026-11-22T00:00:00Z","until":"2026-11-22T00:00:00Z"}`, refused(40062,
			"since must be before until")},
		{"erase", `{"since":"monday"}`, refused(40062,
			`since must be a time of the form 2026-11-22T09:30:00Z; got "monday"`)},
		{"-7/correct", `{"name":null}`, refused(40062, "name must be a string; got null")},
		{"-7/correct", `{"name":"a\ud800b"}`, refused(40007, "name"+unpaired)},
		{"-7/correct", `{"name":"\u0000"}`, refused(40023, "name contains the character U+0000; remove it")},
		{"9/correct", `{"name":"a"}`, refused(40402, "the store has no plant with the id 9")},
		{"x/correct", `{"name":"a"}`, badID("x")},

		{"-7/correct", `{"name":"Acer \ud83c\udf41","no_tag":true}`, ok(`{"id":-7,"name":"Acer 🍁",CREATED}`)},
		{"-7/correct", `{"tag":"a\u0001\n\u202e\ufffd"}`, ok(acer)},
		{"erase", `{"ids":[1,1,-7,-8],"dry_run":true}`, ok(
			`{"plants":2,"first":[` + acer + `,{"id":1,"name":"Rosa",` + created + `}]}`)},
		{"erase", `{"ids":[1,1,-7,-8]}`, ok(`{"plants":2}`)},
		{"erase", `{"ids":[1,1,-7,-8]}`, none},
	} {
		got := h.post("/plants/"+step.path, step.body, admin)
		got.body = byAdmin.ReplaceAllString(got.body, "CREATED")
		check(t, step.path+" "+step.body[:min(60, len(step.body))], got, step.want)
	}
	check(t, "left", h.get("/plants"), ok(`{"plants":[{"id":2,"name":"Tilia",`+created+`}]}`))
	for path, most := range map[string]int{"erase": 16 << 10, "2/correct": 1 << 20} {
		body := fmt.Sprintf(`{"tag":"%s"}`, strings.Repeat("x", most))
		check(t, path, h.post("/plants/"+path, body, admin),
			refused(41301, fmt.Sprintf("the body is larger than %d bytes; nothing was stored", most)))
		check(t, path, h.post("/plants/"+path, `{"ids":[2]}`), refused(40301, "the credential lacks the scope admin"))
	}
}
