package dump_test

import (
	"strings"
	"testing"

	"plantstore/internal/dump"
)

const (
	rosaJSON   = `{"id":1,"name":"Rosa"}`
	bellisJSON = `{"id":2,"name":"Bellis","tag":""}`
	noID       = "id is missing; add a 64-bit integer"
)

func TestReadJSONL(t *testing.T) {
	t.Parallel()
	rosa, bellis := row{1, rosaJSON, named(1, "Rosa"), ""}, row{2, bellisJSON, tagged(2, "Bellis", ""), ""}
	for _, tt := range []struct {
		name, in string
		want     []row
	}{
		{"empty", "", nil},
		{"byte order mark alone", "\uFEFF", nil},
		{"blank", "\n \t\r\n\r", nil},
		{"LF", rosaJSON + "\n" + bellisJSON + "\n", []row{rosa, bellis}},
		{"CRLF", rosaJSON + "\r\n" + bellisJSON + "\r\n", []row{rosa, bellis}},
		{"no line end at the end", rosaJSON + "\n" + bellisJSON, []row{rosa, bellis}},
		{"CR at the end", rosaJSON + "\n" + bellisJSON + "\r", []row{rosa, bellis}},
		{"byte order mark", "\uFEFF" + rosaJSON + "\n", []row{rosa}},
		{"blank lines", "\n\r\n \n" + rosaJSON + "\n\n", []row{{4, rosaJSON, named(1, "Rosa"), ""}}},
		{"white space around", " " + rosaJSON + "\t\r\r\n", []row{{1, " " + rosaJSON + "\t\r", named(1, "Rosa"), ""}}},
		{
			"byte order mark inside", "\n\uFEFF" + rosaJSON,
			[]row{{
				Line: 2, Raw: "\uFEFF" + rosaJSON,
				Err: "the row is not JSON: expected a value at byte 0; got a byte order mark, which must be removed",
			}},
		},
		{
			"refused, then valid", "{}\n" + bellisJSON + "\n",
			[]row{{Line: 1, Raw: "{}", Err: "id is missing, add a 64-bit integer; name is missing, add a string"}, bellis},
		},
		{
			"two in a line", rosaJSON + rosaJSON + "\n" + bellisJSON,
			[]row{
				{Line: 1, Raw: rosaJSON + rosaJSON, Err: "the row is not JSON: expected the end of the row at byte 22; got '{'"},
				bellis,
			},
		},
		{
			"not UTF-8", `{"id":1,"name":"` + "\xff\"}\n" + bellisJSON,
			[]row{{Line: 1, Raw: `{"id":1,"name":"` + "\xff\"}", Err: "the row must be UTF-8; got 0xFF at byte 16"}, bellis},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRead(t, tt.in, dump.JSONL, tt.want, "")
		})
	}
}

func TestReadJSON(t *testing.T) {
	t.Parallel()
	rosa := row{1, rosaJSON, named(1, "Rosa"), ""}
	bellis := row{1, bellisJSON, tagged(2, "Bellis", ""), ""}
	const tricky = `{"id":1,"name":"a]},[{\"\\","x":[{"]":"}"}]}`
	for _, tt := range []struct {
		name, in string
		want     []row
	}{
		{"empty array", "[]", nil},
		{"empty array with white space", "\uFEFF \n[\t\r\n]\n", nil},
		{"one", "[" + rosaJSON + "]", []row{rosa}},
		{"two", "[" + rosaJSON + "," + bellisJSON + "]\r\n", []row{rosa, bellis}},
		{
			"white space", " [ " + rosaJSON + "\t,\r\n\n" + bellisJSON + "\n] ",
			[]row{rosa, {3, bellisJSON, tagged(2, "Bellis", ""), ""}},
		},
		{
			"elements of several lines", "[\n{\n\"id\":1,\n\"name\":\"Rosa\"\n}\n,\n" + rosaJSON + "]",
			[]row{{2, "{\n\"id\":1,\n\"name\":\"Rosa\"\n}", named(1, "Rosa"), ""}, {7, rosaJSON, named(1, "Rosa"), ""}},
		},
		{
			"brackets and quotes in strings", "[" + tricky + "," + rosaJSON + "]",
			[]row{{1, tricky, named(1, `a]},[{"\`), ""}, rosa},
		},
		{
			"other values", `[1,"a,]",null,[[],{}],` + rosaJSON + "]",
			[]row{
				{Line: 1, Raw: "1", Err: "the row must be a JSON object; got 1"},
				{Line: 1, Raw: `"a,]"`, Err: "the row must be a JSON object; got a string"},
				{Line: 1, Raw: "null", Err: "the row must be a JSON object; got null"},
				{Line: 1, Raw: "[[],{}]", Err: "the row must be a JSON object; got an array"},
				rosa,
			},
		},
		{
			"refused, then valid", `[{"name":"Rosa"},` + bellisJSON + "]",
			[]row{{Line: 1, Raw: `{"name":"Rosa"}`, Err: noID}, bellis},
		},
		{
			"wrong bracket", `[{"id":1],` + bellisJSON + "]",
			[]row{{Line: 1, Raw: `{"id":1]`, Err: "id 1: the row is not JSON: expected ',' or '}' at byte 7; got ']'"}, bellis},
		},
		{
			"no comma", `[1 2,` + bellisJSON + "]",
			[]row{{Line: 1, Raw: "1 2", Err: "the row is not JSON: expected the end of the row at byte 2; got '2'"}, bellis},
		},
		{
			"line end in a string", "[\"\n\",\n" + bellisJSON + "]",
			[]row{
				{
					Line: 1, Raw: "\"\n\"",
					Err: `the row is not JSON: expected an escape for the control character at byte 1; got '\n'`,
				},
				{3, bellisJSON, tagged(2, "Bellis", ""), ""},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRead(t, tt.in, dump.JSON, tt.want, "")
		})
	}
}

// insideElement is the failure of an array that ends in an element of line 1.
const insideElement = "the array is not closed; the file ends inside the element of line 1"

func TestReadJSONBroken(t *testing.T) {
	t.Parallel()
	rosa := []row{{1, rosaJSON, named(1, "Rosa"), ""}}
	const (
		empty = "the file is empty; a JSON file must contain an array: [] for no plants"
		jsonl = "; the format for one object per line is jsonl"
	)
	for _, tt := range []struct {
		name, in string
		rows     []row
		want     string
	}{
		{"empty", "", nil, "line 1: " + empty},
		{"blank", "\n\n", nil, "line 3: " + empty},
		{"object", "\n" + rosaJSON, nil, "line 2: the file must be a JSON array; it begins with '{'" + jsonl},
		{"text", "id,name\n", nil, "line 1: the file must be a JSON array; it begins with 'i'" + jsonl},
		{"open", "[\n", nil, "line 2: the array is not closed; expected ']' at the end"},
		{"open after an element", "[" + rosaJSON + ",\n\n", rosa, "line 3: the array is not closed; expected ']' at the end"},
		{
			"open inside an element", "[" + rosaJSON + ",\n{\n\"id\"", rosa,
			"line 3: the array is not closed; the file ends inside the element of line 2",
		},
		{"open after a value", "[1", nil, "line 1: " + insideElement},
		{"open string", `["\"]`, nil, "line 1: " + insideElement},
		{"comma at the end", "[" + rosaJSON + "\n,]", rosa, "line 2: the array is invalid: expected a plant; got ']'"},
		{"comma at the start", "[," + rosaJSON + "]", nil, "line 1: the array is invalid: expected a plant; got ','"},
		{"two commas", "[" + rosaJSON + ",,]", rosa, "line 1: the array is invalid: expected a plant; got ','"},
		{"brace", "[}]", nil, "line 1: the array is invalid: expected a plant; got '}'"},
		{
			"brace after an element", "[" + rosaJSON + ",\n1\n}]", rosa,
			"line 3: the array is invalid: expected ',' or ']'; got '}'",
		},
		{"second array", "[" + rosaJSON + "]\n[]", rosa, "line 2: expected the end of the file after the array; got '['"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRead(t, tt.in, dump.JSON, tt.rows, tt.want)
		})
	}
}

func TestRejects(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", rowBytesMax+1)
	for _, tt := range []struct {
		name   string
		format dump.Format
		in     string
		want   string
	}{
		{"csv", dump.CSV, "\uFEFF\nname,\"id\"\nRosa,1\n\"a\r\nb\",x\nc\n", "\uFEFFname,\"id\"\r\n\"a\r\nb\",x\r\nc\r\n"},
		{"csv, CR", dump.CSV, "id,name\n1,a\r\r\n", "\uFEFFid,name\r\n1,a\r\r\n"},
		{"csv, quote never closed", dump.CSV, "id,name\n1,\"a\n\nb\n", "\uFEFFid,name\r\n1,\"a\r\nb\r\n"},
		{"csv, too long", dump.CSV, "id,name\nx,y\n" + long + "\n", "\uFEFFid,name\r\nx,y\r\n"},
		{"csv, none", dump.CSV, "id,name\n1,Rosa\n", ""},
		{"jsonl", dump.JSONL, "\uFEFF{}\r\n\n" + rosaJSON + "\n[", "{}\n[\n"},
		{"jsonl, too long", dump.JSONL, long + "\n1\n" + long, "\n1\n"},
		{"jsonl, byte order mark", dump.JSONL, "\n\uFEFF{}\n", "\n\uFEFF{}\n"},
		{"jsonl, none", dump.JSONL, rosaJSON, ""},
		{"json", dump.JSON, "[\n{}," + rosaJSON + ",[\n1] ]", "[\n{},\n[\n1]\n]\n"},
		{"json, too long", dump.JSON, "[" + long + ",1]", "[\n1\n]\n"},
		{"json, none", dump.JSON, "[" + rosaJSON + "]", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := string(rewrite(t, []byte(tt.in), tt.format)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
