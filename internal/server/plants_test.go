package server_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
)

// Rules 1 and 2 of the specification: the response to a valid NewPlant is 200 with the Plant, which has no id. The
// store has the plant as it was sent.
func TestValidBody(t *testing.T) {
	t.Parallel()
	h := start(t)
	const (
		named  = `{"name":"A"}`
		tagged = `{"name":"A","tag":"T"}`
		others = `"colour":"green","more":{"id":"x","list":[1,null,{"name":2}]},"null":null`
	)
	deepest := strings.Repeat("[", 63) + strings.Repeat("]", 63) // in the object, the 64th level
	a, at := plant.Plant{Name: "A"}, plant.Plant{Name: "A", Tag: plant.Tagged("T")}
	for _, row := range []struct {
		name, in, want string
		id             int64
		plant          plant.Plant
	}{
		{"name", `{"id":1,"name":"A"}`, named, 1, a},
		{"name and tag", `{"id":2,"name":"A","tag":"T"}`, tagged, 2, at},
		{"empty tag", `{"id":3,"name":"","tag":""}`, `{"name":"","tag":""}`, 3, plant.Plant{Tag: plant.Tagged("")}},
		{"empty name", `{"id":4,"name":""}`, `{"name":""}`, 4, plant.Plant{}},
		{"largest id", `{"id":9223372036854775807,"name":"A"}`, named, math.MaxInt64, a},
		{"smallest id", `{"id":-9223372036854775808,"name":"A"}`, named, math.MinInt64, a},
		{"id that a float rounds", `{"id":9007199254740993,"name":"A"}`, named, 1<<53 + 1, a},
		{"id 0", `{"id":0,"name":"A"}`, named, 0, a},
		{"id 6.0", `{"id":6.0,"name":"A"}`, named, 6, a},
		{"id 1e3", `{"id":1e3,"name":"A"}`, named, 1000, a},
		{"id 70E-1", `{"id":70E-1,"name":"A"}`, named, 7, a},
		{"large id with exponent", `{"id":9.223372036854775806e+18,"name":"A"}`, named, math.MaxInt64 - 1, a},
		{"unknown members", `{"id":8,` + others + `,"name":"A"}`, named, 8, a},
		{"members in other case", `{"ID":"x","Name":1,"TAG":null,"id":9,"name":"A"}`, named, 9, a},
		{"deepest", `{"id":10,"name":"A","more":` + deepest + `}`, named, 10, a},
		{"order", `{"tag":"T","name":"A","id":11}`, tagged, 11, at},
		{"white space", " \t\r\n{ \"id\"\t:\r12 ,\n\"name\" : \"A\" } \r\n", named, 12, a},
		{
			"escapes", `{"i\u0064":13,"name":"\u00e9\uD83C\uDF31\/\"\\\b\f\n\r\t\u001f"}`,
			`{"name":"é🌱/\"\\\b\f\n\r\t\u001f"}`, 13,
			plant.Plant{Name: "é🌱/\"\\\b\f\n\r\t\x1f"},
		},
		{
			"characters beyond ASCII", `{"id":14,"name":"é🌱木 <&>` + "\u2028\x7f" + `"}`,
			`{"name":"é🌱木 <&>` + "\u2028\x7f" + `"}`, 14,
			plant.Plant{Name: "é🌱木 <&>\u2028\x7f"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := h.withT(t)
			same(t, h.send(post(row.in)), created(row.want))
			got, want := h.stored(row.id), plant.NewPlant{ID: row.id, Plant: row.plant}
			if diff := cmp.Diff(want, got.NewPlant, cmp.AllowUnexported(plant.Tag{})); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if got.CreatedBy != "gardener" {
				t.Errorf("created by: got %q, want gardener", got.CreatedBy)
			}
		})
	}
}

// The server accepts a valid plant in every form of HTTP request.
func TestValidRequest(t *testing.T) { overBoth(t, testValidRequest) }

func testValidRequest(t *testing.T, over func(*setup)) {
	h := start(t, over)
	body := func(id int) string { return fmt.Sprintf(`{"id":%d,"name":"A"}`, id) }
	want := created(`{"name":"A"}`)
	closing := created(`{"name":"A"}`, "Connection", "close")
	runCases(t, h, []requestCase{
		{"charset", post(body(1), "Content-Type: application/json; charset=utf-8"), want},
		{"charset in other case", post(body(2), "Content-Type: Application/JSON;Charset=UTF-8"), want},
		{"charset in quotes", post(body(3), `Content-Type: application/json ; charset="utf-8"`), want},
		{"header names in lower case", post(body(4), "-Content-Type", "+content-type: application/json"), want},
		{"chunked", post(chunked(body(5), 100), "-Content-Length", "Transfer-Encoding: chunked"), closing},
		{"chunked byte by byte", post(chunked(body(6), 1), "-Content-Length", "Transfer-Encoding: Chunked"), closing},
		{"query", message("POST /plants?dry=true&id=9 HTTP/1.1", body(7)), want},
		{"escapes in the path", message("POST /%70lants HTTP/1.1", body(8)), want},
		{"HTTP/1.0", message("POST /plants HTTP/1.0", body(9), "-Host"), closing},
		{"whole URL as target", message("POST http://plants.example/plants HTTP/1.1", body(10)), want},
		{"Connection: close", post(body(11), "Connection: close"), closing},
		{"equal lengths", post(body(12), "+Content-Length: 20"), want},
		{"lines that end with LF", strings.ReplaceAll(post(body(13)), "\r\n", "\n"), want},
	})
	for id := range int64(13) {
		h.stored(id + 1)
	}
}

// invalidPlant is a body that the server refuses.
type invalidPlant struct {
	name, in string
	code     int
	message  string
}

// runInvalid sends the bodies and checks that the store has no plant.
func runInvalid(t *testing.T, plants []invalidPlant) {
	t.Helper()
	h := start(t)
	cases := make([]requestCase, len(plants))
	for i, p := range plants {
		cases[i] = requestCase{p.name, post(p.in), refused(p.code, p.message)}
	}
	runCases(t, h, cases)
	h.notStored(1)
}

// Rule 3 of the specification: each fault has a number. The tests of package plant cover the JSON parser.
func TestInvalidBody(t *testing.T) {
	t.Parallel()
	tooDeep := `{"id":1,"name":"A","more":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`
	runInvalid(t, []invalidPlant{
		{"empty", "", 40001, textNoBody},
		{"white space", " \r\n\t", 40001, textNoBody},
		{"not JSON", "id=1&name=A", 40002, "the body is not JSON: expected a value at byte 0; got 'i'"},
		{
			"truncated", `{"id":1,"name":"A"`, 40002,
			"the body is not JSON: expected ',' or '}' at byte 18; got the end of the body",
		},
		{
			"comma at the end", `{"id":1,"name":"A",}`, 40002,
			"the body is not JSON: expected a member name in quotes at byte 19; got '}'",
		},
		{
			"two values", `{"id":1,"name":"A"}{"id":2,"name":"B"}`, 40002,
			"the body is not JSON: expected the end of the body at byte 19; got '{'",
		},
		{
			"byte order mark", "\ufeff" + `{"id":1,"name":"A"}`, 40002,
			"the body is not JSON: expected a value at byte 0; got a byte order mark, which must be removed",
		},
		{
			"comment", `{"id":1,/* */"name":"A"}`, 40002,
			"the body is not JSON: expected a member name in quotes at byte 8; got '/'",
		},
		{"NaN", `{"id":NaN,"name":"A"}`, 40002, "the body is not JSON: expected a value at byte 6; got 'N'"},
		{"invalid UTF-8", `{"id":1,"name":"` + "\xff" + `"}`, 40003, "the body must be UTF-8; got 0xFF at byte 16"},
		{"too deep", tooDeep, 40004, "arrays and objects must nest at most 64 deep; got 65 at byte 89"},
		{"array", `[{"id":1,"name":"A"}]`, 40005, "the body must be a JSON object; got an array"},
		{"null", `null`, 40005, "the body must be a JSON object; got null"},
		{"id twice", `{"id":1,"name":"A","id":1}`, 40006, `member names must be unique; got "id" twice`},
		{
			"name twice by an escape", `{"id":1,"name":"A","n\u0061me":"B"}`, 40006,
			`member names must be unique; got "name" twice`,
		},
		{
			"unknown member twice", `{"id":1,"name":"A","more":{"x":1,"x":2}}`, 40006,
			`member names must be unique; got "x" twice`,
		},
		{
			"lone surrogate", `{"id":1,"name":"\ud83c"}`, 40007,
			"name contains an unpaired surrogate; send the whole pair or the character in UTF-8",
		},
	})
}

func TestInvalidMembers(t *testing.T) {
	t.Parallel()
	const idRange = "id must be from -9223372036854775808 to 9223372036854775807; got "
	runInvalid(t, []invalidPlant{
		{"no id", `{"name":"A"}`, 40011, "id is missing; send a 64-bit integer"},
		{"id as a string", `{"id":"1","name":"A"}`, 40012, `id must be a 64-bit integer; got "1"`},
		{"id null", `{"id":null,"name":"A"}`, 40012, "id must be a 64-bit integer; got null"},
		{"id with a fraction", `{"id":1.5,"name":"A"}`, 40013, "id must be a 64-bit integer; got 1.5"},
		{"id too large", `{"id":9223372036854775808,"name":"A"}`, 40014, idRange + "9223372036854775808"},
		{"id too small", `{"id":-9223372036854775809,"name":"A"}`, 40014, idRange + "-9223372036854775809"},
		{"no name", `{"id":1}`, 40021, "name is missing; send a string"},
		{"name as a number", `{"id":1,"name":2}`, 40022, "name must be a string; got 2"},
		{"name with U+0000", `{"id":1,"name":"A\u0000"}`, 40023, "name contains the character U+0000; remove it"},
		{"tag null", `{"id":1,"name":"A","tag":null}`, 40031, "tag must be a string; got null"},
		{
			"tag with U+0000", `{"id":1,"name":"A","tag":"\u0000"}`, 40032,
			"tag contains the character U+0000; remove it",
		},
		{
			"several", `{"tag":false,"name":[],"id":"1"}`, 40012,
			`id must be a 64-bit integer, got "1"; name must be a string, got an array; ` +
				"tag must be a string, got false",
		},
		{"empty object", `{}`, 40011, "id is missing, send a 64-bit integer; name is missing, send a string"},
	})
}
