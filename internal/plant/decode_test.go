package plant_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"plantstore/internal/plant"
)

func named(id int64, name string) plant.NewPlant {
	return plant.NewPlant{ID: id, Plant: plant.Plant{Name: name}}
}

func tagged(id int64, name, tag string) plant.NewPlant {
	return plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: plant.Tagged(tag)}}
}

// nested returns n empty arrays inside each other.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestDecode(t *testing.T) {
	t.Parallel()
	many := ""
	for i := range 20 {
		many += `"m` + strings.Repeat("m", i) + `":` + `{"a":1,"b":2},`
	}
	for _, tt := range []struct {
		name, body string
		want       plant.NewPlant
	}{
		{"no tag", `{"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"tag", `{"id":1,"name":"Rosa","tag":"shrub"}`, tagged(1, "Rosa", "shrub")},
		{"empty tag", `{"id":1,"name":"Rosa","tag":""}`, tagged(1, "Rosa", "")},
		{"empty name", `{"id":1,"name":""}`, named(1, "")},
		{"other order", `{"tag":"shrub","name":"Rosa","id":1}`, tagged(1, "Rosa", "shrub")},
		{"white space", " \t\r\n{ \"id\" : 1 ,\n\t\"name\"\r:\"Rosa\" } \n", named(1, "Rosa")},
		{"escapes", `{"id":1,"name":"\"\\\/\b\f\n\r\t\u00e9\u00E9\uFFFD"}`, named(1, "\"\\/\b\f\n\r\téé\uFFFD")},
		{"surrogate pair", `{"id":1,"name":"\ud83d\uDE00","tag":"\uDBFF\uDFFF"}`, tagged(1, "😀", "\U0010FFFF")},
		{"text around escapes", `{"id":1,"name":"a\tb\u0063","tag":"d\/e"}`, tagged(1, "a\tbc", "d/e")},
		{"UTF-8", "{\"id\":1,\"name\":\"é\u2028😀\uFFFD\x7f\"}", named(1, "é\u2028😀\uFFFD\x7f")},
		{"byte order mark in the name", "{\"id\":1,\"name\":\"\uFEFF\"}", named(1, "\uFEFF")},
		{"escaped member names", `{"\u0069d":1,"n\u0061me":"Rosa","\u0074ag":"shrub"}`, tagged(1, "Rosa", "shrub")},
		{
			"unknown members of every type",
			`{"a":null,"b":true,"c":false,"d":-0.5e+1,"e":"\u0000","f":[],"g":{},"h":[1,"",{"a":[null]}],` +
				`"i":{"id":"","name":1},"id":1,"name":"Rosa"}`,
			named(1, "Rosa"),
		},
		{"numbers of every form", `{"a":[0,-0,0.0,1e0,1E+00,1e-0,10.25e2,-12],"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{
			"member names in other case are unknown members", `{"ID":2,"Name":"","TAG":0,"id":1,"name":"Rosa"}`,
			named(1, "Rosa"),
		},
		{"empty member name", `{"":1,"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"NUL in an unknown member", `{"a":"\u0000","\u0000":1,"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{
			"same member names in other objects",
			`{"id":1,"name":"Rosa","a":{"id":1,"name":"","a":{"id":1}},"b":[{"id":1},{"id":1}]}`, named(1, "Rosa"),
		},
		{"many members", "{" + many + `"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"depth 64 of arrays", `{"id":1,"name":"Rosa","a":` + nested(63) + `}`, named(1, "Rosa")},
		{
			"depth 64 of objects", strings.Repeat(`{"id":1,"name":"Rosa","a":`, 63) + "{}" + strings.Repeat("}", 63),
			named(1, "Rosa"),
		},
		{"depth 64 twice", `{"id":1,"name":"Rosa","a":[` + nested(62) + "," + nested(62) + `]}`, named(1, "Rosa")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := []byte(tt.body)
			got, err := plant.Decode(body)
			clear(body) // the plant must keep no reference to it
			if err != nil || got != tt.want {
				t.Errorf("Decode(%q) = %v, %v; want %v", tt.body, got, err, tt.want)
			}
		})
	}
}

// fault is an invalid body and the error for it.
type fault struct {
	name, body string
	code       plant.Code
	message    string
}

func checkFaults(t *testing.T, faults []fault) {
	t.Helper()
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := plant.Decode([]byte(tt.body))
			var refusal *plant.Error
			if !errors.As(err, &refusal) || got != (plant.NewPlant{}) {
				t.Fatalf("Decode(%.200q) = %v, %v; want the zero plant and an *Error", tt.body, got, err)
			}
			if refusal.Code != tt.code || refusal.Message != tt.message {
				t.Errorf(
					"Decode(%.200q): got %d %q, want %d %q", tt.body, refusal.Code, refusal.Message, tt.code,
					tt.message,
				)
			}
		})
	}
}

const (
	bodyRule  = "the body must be a JSON object; got "
	bodyEmpty = "the body is empty; send a JSON object with id, name and an optional tag"
	idMissing = "id is missing; send a 64-bit integer"
	nameGone  = "name is missing; send a string"
	unpaired  = " contains an unpaired surrogate; send the whole pair or the character in UTF-8"
	nulText   = " contains the character U+0000; remove it"
	idType    = "id must be a 64-bit integer; got "
	unique    = "member names must be unique; got "
	tooDeep   = "arrays and objects must nest at most 64 deep; got 65 at byte "
	notUTF8   = "the body must be UTF-8; got "
)

// several joins faults as one message does.
func several(faults ...string) string {
	for i := range faults {
		faults[i] = strings.Replace(faults[i], "; ", ", ", 1)
	}
	return strings.Join(faults, "; ")
}

func TestDecodeForm(t *testing.T) {
	t.Parallel()
	notJSON := func(name, body, message string) fault {
		return fault{name, body, plant.CodeBodyNotJSON, "the body is not JSON: expected " + message}
	}
	checkFaults(t, []fault{
		{"empty", "", plant.CodeBodyMissing, bodyEmpty},
		{"white space", " \r\n\t", plant.CodeBodyMissing, bodyEmpty},
		{"null", "null", plant.CodeBodyNotObject, bodyRule + "null"},
		{"true", "true", plant.CodeBodyNotObject, bodyRule + "true"},
		{"false", " false ", plant.CodeBodyNotObject, bodyRule + "false"},
		{"number", "-1", plant.CodeBodyNotObject, bodyRule + "-1"},
		{"string", `"Rosa"`, plant.CodeBodyNotObject, bodyRule + "a string"},
		{"array", `[{"id":1,"name":"Rosa"}]`, plant.CodeBodyNotObject, bodyRule + "an array"},
		notJSON("byte order mark", "\uFEFF{}", `a value at byte 0; got '\ufeff'`),
		notJSON("text", "id=1", "a value at byte 0; got 'i'"),
		notJSON("NUL", "\x00", `a value at byte 0; got '\x00'`),
		notJSON("NUL after the object", "{\"id\":1,\"name\":\"\"}\x00", `the end of the body at byte 18; got '\x00'`),
		notJSON("second value", `{"id":1,"name":""} {}`, "the end of the body at byte 19; got '{'"),
		notJSON("array and more", `[] ,`, "the end of the body at byte 3; got ','"),
		notJSON("half a literal", "tru", "a value at byte 0; got 't'"),
		notJSON("other literals", `{"a":NaN}`, "a value at byte 5; got 'N'"),
		notJSON("literal and more", "nulll", "the end of the body at byte 4; got 'l'"),
		notJSON("open object", "{", "a member name in quotes at byte 1; got the end of the body"),
		notJSON("name without quotes", "{id:1}", "a member name in quotes at byte 1; got 'i'"),
		notJSON("single quotes", "{'id':1}", `a member name in quotes at byte 1; got '\''`),
		notJSON("comma at the end", `{"id":1,}`, "a member name in quotes at byte 8; got '}'"),
		notJSON("comma alone", `{,}`, "a member name in quotes at byte 1; got ','"),
		notJSON("no colon", `{"id" 1}`, "':' at byte 6; got '1'"),
		notJSON("no value", `{"id":}`, "a value at byte 6; got '}'"),
		notJSON("no value for a name", `{"name":,}`, "a value at byte 8; got ','"),
		notJSON("no comma", `{"id":1 "name":""}`, "',' or '}' at byte 8; got '\"'"),
		notJSON("wrong bracket", `{"a":[1}}`, "',' or ']' at byte 7; got '}'"),
		notJSON("comma in an array", `[1,]`, "a value at byte 3; got ']'"),
		notJSON("open array", `[1`, "',' or ']' at byte 2; got the end of the body"),
		notJSON("comment", `{"id":1 /* */}`, "',' or '}' at byte 8; got '/'"),
		notJSON("leading zero", `{"id":01}`, "',' or '}' at byte 7; got '1'"),
		notJSON("plus", `{"id":+1}`, "a value at byte 6; got '+'"),
		notJSON("minus alone", `{"id":-}`, "a digit at byte 7; got '}'"),
		notJSON("point first", `{"id":.5}`, "a value at byte 6; got '.'"),
		notJSON("point last", `{"id":1.}`, "a digit at byte 8; got '}'"),
		notJSON("exponent without digits", `{"id":1e+}`, "a digit at byte 9; got '}'"),
		notJSON("number cut off", `{"a":-`, "a digit at byte 6; got the end of the body"),
		notJSON("hexadecimal", `{"id":0x10}`, "',' or '}' at byte 7; got 'x'"),
		notJSON(
			"open string", `{"id":1,"name":"Ro`, "the closing quote of a string at byte 18; got the end of the body",
		),
		notJSON(
			"open string with escapes", `{"name":"\n`,
			"the closing quote of a string at byte 11; got the end of the body",
		),
		notJSON(
			"line end in a string", "{\"name\":\"a\nb\"}", `an escape for the control character at byte 10; got '\n'`,
		),
		notJSON(
			"control character after an escape", "{\"name\":\"\\n\x1f\"}",
			`an escape for the control character at byte 11; got '\x1f'`,
		),
		notJSON("NUL in a name", "{\"name\":\"\x00\"}", `an escape for the control character at byte 9; got '\x00'`),
		notJSON("unknown escape", `{"name":"\x"}`, `one of "\/bfnrtu after the backslash at byte 10; got 'x'`),
		notJSON(
			"backslash at the end", `{"name":"\`,
			`one of "\/bfnrtu after the backslash at byte 10; got the end of the body`,
		),
		notJSON("short escape", `{"name":"\u12g4"}`, `four hexadecimal digits after \u at byte 13; got 'g'`),
		notJSON("escape with a sign", `{"name":"\u+123"}`, `four hexadecimal digits after \u at byte 11; got '+'`),
		notJSON(
			"escape at the end", `{"name":"\u12`,
			`four hexadecimal digits after \u at byte 13; got the end of the body`,
		),
		notJSON("second escape broken", `{"name":"\ud83d\u"}`, `four hexadecimal digits after \u at byte 17; got '"'`),
		notJSON("member name cut off", `{"na`, "the closing quote of a string at byte 4; got the end of the body"),
		notJSON("broken value of a wrong type", `{"name":[1}`, "',' or ']' at byte 10; got '}'"),
		{"depth 65 of arrays", nested(65), plant.CodeBodyTooDeep, tooDeep + "64"},
		{"depth 65 within", `{"id":1,"name":"Rosa","a":` + nested(64) + `}`, plant.CodeBodyTooDeep, tooDeep + "89"},
		{"depth 65 of objects", strings.Repeat(`{"a":`, 65), plant.CodeBodyTooDeep, tooDeep + "320"},
		{"depth of 30,000", strings.Repeat("[", 30_000), plant.CodeBodyTooDeep, tooDeep + "64"},
	})
}

func TestDecodeContent(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		{"nothing", "{}", plant.CodeIDMissing, several(idMissing, nameGone)},
		{"no id", `{"name":"Rosa"}`, plant.CodeIDMissing, idMissing},
		{"no name", `{"id":1}`, plant.CodeNameMissing, nameGone},
		{"member names in other case", `{"ID":1,"Name":"Rosa"}`, plant.CodeIDMissing, several(idMissing, nameGone)},
		{"id string", `{"id":"1","name":"Rosa"}`, plant.CodeIDWrongType, idType + `"1"`},
		{"id text", `{"id":"12x","name":"Rosa"}`, plant.CodeIDWrongType, idType + "a string"},
		{
			"id long string", `{"id":"` + strings.Repeat("1", 39) + `","name":"Rosa"}`, plant.CodeIDWrongType,
			idType + "a string",
		},
		{"id empty string", `{"id":"","name":"Rosa"}`, plant.CodeIDWrongType, idType + `""`},
		{"id null", `{"id":null,"name":"Rosa"}`, plant.CodeIDWrongType, idType + "null"},
		{"id boolean", `{"id":true,"name":"Rosa"}`, plant.CodeIDWrongType, idType + "true"},
		{"id array", `{"id":[1],"name":"Rosa"}`, plant.CodeIDWrongType, idType + "an array"},
		{"id object", `{"id":{},"name":"Rosa"}`, plant.CodeIDWrongType, idType + "an object"},
		{"name number", `{"id":1,"name":1}`, plant.CodeNameWrongType, "name must be a string; got 1"},
		{
			"name long number", `{"id":1,"name":` + strings.Repeat("1", 41) + `}`, plant.CodeNameWrongType,
			"name must be a string; got " + strings.Repeat("1", 40) + "…",
		},
		{"name null", `{"id":1,"name":null}`, plant.CodeNameWrongType, "name must be a string; got null"},
		{"name array", `{"id":1,"name":["Rosa"]}`, plant.CodeNameWrongType, "name must be a string; got an array"},
		{"tag null", `{"id":1,"name":"Rosa","tag":null}`, plant.CodeTagWrongType, "tag must be a string; got null"},
		{
			"tag boolean", `{"id":1,"name":"Rosa","tag":false}`, plant.CodeTagWrongType,
			"tag must be a string; got false",
		},
		{
			"tag object", `{"id":1,"name":"Rosa","tag":{}}`, plant.CodeTagWrongType,
			"tag must be a string; got an object",
		},
		{"name NUL", `{"id":1,"name":"a\u0000"}`, plant.CodeNameHasNUL, "name" + nulText},
		{"tag NUL", `{"id":1,"name":"a","tag":"\u0000"}`, plant.CodeTagHasNUL, "tag" + nulText},
		{"high surrogate", `{"id":1,"name":"\ud800"}`, plant.CodeLoneSurrogate, "name" + unpaired},
		{"low surrogate", `{"id":1,"name":"\udc00a"}`, plant.CodeLoneSurrogate, "name" + unpaired},
		{
			"high surrogate before a letter", `{"id":1,"name":"\uDBFFabcdef"}`, plant.CodeLoneSurrogate,
			"name" + unpaired,
		},
		{"high surrogate before an escape", `{"id":1,"name":"\ud800\n"}`, plant.CodeLoneSurrogate, "name" + unpaired},
		{
			"high surrogate before another character", `{"id":1,"name":"\ud800\u0061"}`, plant.CodeLoneSurrogate,
			"name" + unpaired,
		},
		{"two high surrogates", `{"id":1,"name":"\ud800\ud800"}`, plant.CodeLoneSurrogate, "name" + unpaired},
		{
			"high surrogate before a pair", `{"id":1,"name":"\ud800\ud83d\ude00"}`, plant.CodeLoneSurrogate,
			"name" + unpaired,
		},
		{"pair the wrong way round", `{"id":1,"name":"\ude00\ud83d"}`, plant.CodeLoneSurrogate, "name" + unpaired},
		{
			"surrogate before NUL", `{"id":1,"name":"\ud800\u0000"}`, plant.CodeLoneSurrogate,
			several("name"+unpaired, "name"+nulText),
		},
		{"surrogate in the tag", `{"id":1,"name":"","tag":"\ud800"}`, plant.CodeLoneSurrogate, "tag" + unpaired},
		{
			"surrogate in an unknown member", `{"id":1,"name":"","a":["\ud800"]}`, plant.CodeLoneSurrogate,
			"an array element" + unpaired,
		},
		{
			"surrogate in a member name", `{"id":1,"name":"","\ud800":1}`, plant.CodeLoneSurrogate,
			"a member name" + unpaired,
		},
		{"id twice", `{"id":1,"name":"","id":1}`, plant.CodeMemberTwice, unique + `"id" twice`},
		{"name twice", `{"id":1,"name":"","name":2}`, plant.CodeMemberTwice, unique + `"name" twice`},
		{"tag twice", `{"id":1,"tag":"","name":"","tag":null}`, plant.CodeMemberTwice, unique + `"tag" twice`},
		{"twice, once escaped", `{"id":1,"\u0069d":1,"name":""}`, plant.CodeMemberTwice, unique + `"id" twice`},
		{
			"twice, first escaped", `{"\u0069\u0064":1,"x":"\t","id":1,"name":""}`, plant.CodeMemberTwice,
			unique + `"id" twice`,
		},
		{"unknown twice", `{"a":1,"id":1,"name":"","a":1}`, plant.CodeMemberTwice, unique + `"a" twice`},
		{
			"twice in a nested object", `{"id":1,"name":"","x":[{"y":{"a":1,"a":2}}]}`, plant.CodeMemberTwice,
			unique + `"a" twice`,
		},
		{
			"twice among many",
			`{"id":1,"name":"","a":1,"b":1,"c":1,"\u0064":1,"e":1,"f":1,"g":1,"\u0068":1,"i":1,"d":1,"h":1,"i":2}`,
			plant.CodeMemberTwice, several(unique+`"d" twice`, unique+`"h" twice`, unique+`"i" twice`),
		},
		{
			"long name twice",
			`{"id":1,"name":"","` + strings.Repeat("é", 30) + `":1,"` + strings.Repeat("é", 30) + `":1}`,
			plant.CodeMemberTwice, unique + `"` + strings.Repeat("é", 20) + `"… twice`,
		},
		{
			"long name twice, cut within a character",
			`{"id":1,"name":"","a` + strings.Repeat("é", 30) + `":1,"a` + strings.Repeat("é", 30) + `":1}`,
			plant.CodeMemberTwice, unique + `"a` + strings.Repeat("é", 19) + `"… twice`,
		},
		{"not UTF-8", "{\"id\":1,\"name\":\"\xff\"}", plant.CodeBodyNotUTF8, notUTF8 + "0xFF at byte 16"},
		{
			"surrogate in UTF-8", "{\"id\":1,\"name\":\"\xed\xa0\x80\"}", plant.CodeBodyNotUTF8,
			notUTF8 + "0xED at byte 16",
		},
		{"overlong", "{\"id\":1,\"name\":\"\xc0\x80\"}", plant.CodeBodyNotUTF8, notUTF8 + "0xC0 at byte 16"},
		{
			"not UTF-8 in an unknown member", "{\"id\":1,\"name\":\"\uFFFD\",\"\xe9\":1}", plant.CodeBodyNotUTF8,
			notUTF8 + "0xE9 at byte 22",
		},
		{
			"not UTF-8 and not JSON", "\xff", plant.CodeBodyNotJSON,
			several("the body is not JSON: expected a value at byte 0; got 0xFF", notUTF8+"0xFF at byte 0"),
		},
		{
			"several faults", `{"tag":null,"name":"\u0000","a":"\udc00","a":1}`, plant.CodeMemberTwice,
			several(
				unique+`"a" twice`, "an unknown member"+unpaired, idMissing, "name"+nulText,
				"tag must be a string; got null",
			),
		},
		{
			"all of wrong type", `{"tag":1,"name":[],"id":"1"}`, plant.CodeIDWrongType,
			several(idType+`"1"`, "name must be a string; got an array", "tag must be a string; got 1"),
		},
		{
			"faults before broken JSON", `{"id":"1","tag":0,`, plant.CodeBodyNotJSON,
			several("the body is not JSON: expected a member name in quotes at byte 18; got the end of the body",
				idType+`"1"`, "tag must be a string; got 0"),
		},
		{
			"more faults than a message has",
			`{"a":[` + strings.Repeat(`"\ud800",`, 100) + `0]}`, plant.CodeLoneSurrogate,
			several(slices.Repeat([]string{"an array element" + unpaired}, 16)...),
		},
	})
}
