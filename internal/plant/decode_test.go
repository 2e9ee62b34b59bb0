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

	byteOrderMark = "a byte order mark, which must be removed"
)

// several joins faults as one message does.
func several(faults ...string) string {
	for i := range faults {
		faults[i] = strings.Replace(faults[i], "; ", ", ", 1)
	}
	return strings.Join(faults, "; ")
}

// notJSON returns a fault of the JSON syntax.
func notJSON(name, body, message string) fault {
	return fault{name, body, plant.CodeBodyNotJSON, "the body is not JSON: expected " + message}
}

func TestDecodeOtherValues(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		{"empty", "", plant.CodeBodyMissing, bodyEmpty},
		{"white space", " \r\n\t", plant.CodeBodyMissing, bodyEmpty},
		{"null", "null", plant.CodeBodyNotObject, bodyRule + "null"},
		{"true", "true", plant.CodeBodyNotObject, bodyRule + "true"},
		{"false", " false ", plant.CodeBodyNotObject, bodyRule + "false"},
		{"number", "-1", plant.CodeBodyNotObject, bodyRule + "-1"},
		{"string", `"Rosa"`, plant.CodeBodyNotObject, bodyRule + "a string"},
		{"array", `[{"id":1,"name":"Rosa"}]`, plant.CodeBodyNotObject, bodyRule + "an array"},
	})
}

func TestDecodeSyntax(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		notJSON("byte order mark", "\uFEFF{}", "a value at byte 0; got "+byteOrderMark),
		notJSON("byte order mark after the object", "{}\uFEFF", "the end of the body at byte 2; got "+byteOrderMark),
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
		notJSON("syntax error in a value of a wrong type", `{"name":[1}`, "',' or ']' at byte 10; got '}'"),
		notJSON("comment", `{"id":1 /* */}`, "',' or '}' at byte 8; got '/'"),
		notJSON("leading zero", `{"id":01}`, "',' or '}' at byte 7; got '1'"),
		notJSON("plus", `{"id":+1}`, "a value at byte 6; got '+'"),
		notJSON("minus alone", `{"id":-}`, "a digit at byte 7; got '}'"),
		notJSON("point first", `{"id":.5}`, "a value at byte 6; got '.'"),
		notJSON("point last", `{"id":1.}`, "a digit at byte 8; got '}'"),
		notJSON("exponent without digits", `{"id":1e+}`, "a digit at byte 9; got '}'"),
		notJSON("number cut off", `{"a":-`, "a digit at byte 6; got the end of the body"),
		notJSON("hexadecimal", `{"id":0x10}`, "',' or '}' at byte 7; got 'x'"),
	})
}

func TestDecodeStringSyntax(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
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
	})
}

func TestDecodeDepth(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		{"65 arrays", nested(65), plant.CodeBodyTooDeep, tooDeep + "64"},
		{"65 inside a plant", `{"id":1,"name":"Rosa","a":` + nested(64) + `}`, plant.CodeBodyTooDeep, tooDeep + "89"},
		{"65 objects", strings.Repeat(`{"a":`, 65), plant.CodeBodyTooDeep, tooDeep + "320"},
		{"30,000 arrays", strings.Repeat("[", 30_000), plant.CodeBodyTooDeep, tooDeep + "64"},
	})
}

func TestDecodeMissingMembers(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		{"empty object", "{}", plant.CodeIDMissing, several(idMissing, nameGone)},
		{"no id", `{"name":"Rosa"}`, plant.CodeIDMissing, idMissing},
		{"no name", `{"id":1}`, plant.CodeNameMissing, nameGone},
		{"member names in other case", `{"ID":1,"Name":"Rosa"}`, plant.CodeIDMissing, several(idMissing, nameGone)},
	})
}

func TestDecodeTypes(t *testing.T) {
	t.Parallel()
	id := func(name, value, got string) fault {
		body := `{"id":` + value + `,"name":"Rosa"}`
		return fault{"id " + name, body, plant.CodeIDWrongType, idType + got}
	}
	name := func(name, value, got string) fault {
		body := `{"id":1,"name":` + value + `}`
		return fault{"name " + name, body, plant.CodeNameWrongType, "name must be a string; got " + got}
	}
	tag := func(name, value, got string) fault {
		body := `{"id":1,"name":"Rosa","tag":` + value + `}`
		return fault{"tag " + name, body, plant.CodeTagWrongType, "tag must be a string; got " + got}
	}
	digits := strings.Repeat("1", 41)
	checkFaults(t, []fault{
		id("string", `"1"`, `"1"`),
		id("string of a float", `"-1.5e+3"`, `"-1.5e+3"`),
		id("text", `"12x"`, "a string"),
		id("long string", `"`+digits[:39]+`"`, "a string"),
		id("empty string", `""`, `""`),
		id("null", "null", "null"),
		id("boolean", "true", "true"),
		id("array", "[1]", "an array"),
		id("object", "{}", "an object"),
		name("number", "1", "1"),
		name("long number", digits, digits[:40]+"…"),
		name("null", "null", "null"),
		name("array", `["Rosa"]`, "an array"),
		tag("null", "null", "null"),
		tag("boolean", "false", "false"),
		tag("object", "{}", "an object"),
	})
}

func TestDecodeNUL(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		{"name", `{"id":1,"name":"a\u0000"}`, plant.CodeNameHasNUL, "name" + nulText},
		{"tag", `{"id":1,"name":"a","tag":"\u0000"}`, plant.CodeTagHasNUL, "tag" + nulText},
	})
}

func TestDecodeSurrogates(t *testing.T) {
	t.Parallel()
	name := func(name, value string) fault {
		return fault{name, `{"id":1,"name":"` + value + `"}`, plant.CodeLoneSurrogate, "name" + unpaired}
	}
	member := func(name, member, where string) fault {
		return fault{name, `{"id":1,"name":"",` + member + `}`, plant.CodeLoneSurrogate, where + unpaired}
	}
	checkFaults(t, []fault{
		name("high", `\ud800`),
		name("low", `\udc00a`),
		name("high before a letter", `\uDBFFabcdef`),
		name("high before an escape", `\ud800\n`),
		name("high before another character", `\ud800\u0061`),
		name("two high", `\ud800\ud800`),
		name("high before a pair", `\ud800\ud83d\ude00`),
		name("reversed pair", `\ude00\ud83d`),
		member("in the tag", `"tag":"\ud800"`, "tag"),
		member("in an unknown member", `"a":"\ud800"`, "an unknown member"),
		member("in an array", `"a":["\ud800"]`, "an array element"),
		member("in a member name", `"\ud800":1`, "a member name"),
		{
			"before NUL", `{"id":1,"name":"\ud800\u0000"}`, plant.CodeLoneSurrogate,
			several("name"+unpaired, "name"+nulText),
		},
	})
}

func TestDecodeDuplicateMembers(t *testing.T) {
	t.Parallel()
	duplicate := func(name, members, got string) fault {
		return fault{name, "{" + members + "}", plant.CodeMemberTwice, unique + got + " twice"}
	}
	long := strings.Repeat("é", 30)
	checkFaults(t, []fault{
		duplicate("id", `"id":1,"name":"","id":1`, `"id"`),
		duplicate("name", `"id":1,"name":"","name":2`, `"name"`),
		duplicate("tag", `"id":1,"tag":"","name":"","tag":null`, `"tag"`),
		duplicate("second escaped", `"id":1,"\u0069d":1,"name":""`, `"id"`),
		duplicate("first escaped", `"\u0069\u0064":1,"x":"\t","id":1,"name":""`, `"id"`),
		duplicate("unknown", `"a":1,"id":1,"name":"","a":1`, `"a"`),
		duplicate("in a nested object", `"id":1,"name":"","x":[{"y":{"a":1,"a":2}}]`, `"a"`),
		duplicate("long", `"id":1,"name":"","`+long+`":1,"`+long+`":1`, `"`+long[:40]+`"…`),
		duplicate("long, cut within a character", `"id":1,"name":"","a`+long+`":1,"a`+long+`":1`, `"a`+long[:38]+`"…`),
		{
			"among many",
			`{"id":1,"name":"","a":1,"b":1,"c":1,"\u0064":1,"e":1,"f":1,"g":1,"\u0068":1,"i":1,"d":1,"h":1,"i":2}`,
			plant.CodeMemberTwice, several(unique+`"d" twice`, unique+`"h" twice`, unique+`"i" twice`),
		},
	})
}

func TestDecodeUTF8(t *testing.T) {
	t.Parallel()
	invalid := func(name, body, got string) fault {
		return fault{name, body, plant.CodeBodyNotUTF8, notUTF8 + got}
	}
	checkFaults(t, []fault{
		invalid("invalid byte", "{\"id\":1,\"name\":\"\xff\"}", "0xFF at byte 16"),
		invalid("surrogate", "{\"id\":1,\"name\":\"\xed\xa0\x80\"}", "0xED at byte 16"),
		invalid("overlong", "{\"id\":1,\"name\":\"\xc0\x80\"}", "0xC0 at byte 16"),
		invalid("unknown member", "{\"id\":1,\"name\":\"\uFFFD\",\"\xe9\":1}", "0xE9 at byte 22"),
		{
			"not JSON", "\xff", plant.CodeBodyNotJSON,
			several("the body is not JSON: expected a value at byte 0; got 0xFF", notUTF8+"0xFF at byte 0"),
		},
	})
}

func TestDecodeSeveralFaults(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		{
			"of all kinds", `{"tag":null,"name":"\u0000","a":"\udc00","a":1}`, plant.CodeMemberTwice,
			several(
				unique+`"a" twice`, "an unknown member"+unpaired, idMissing, "name"+nulText,
				"tag must be a string; got null",
			),
		},
		{
			"all members of a wrong type", `{"tag":1,"name":[],"id":"1"}`, plant.CodeIDWrongType,
			several(idType+`"1"`, "name must be a string; got an array", "tag must be a string; got 1"),
		},
		{
			"before a JSON error", `{"id":"1","tag":0,`, plant.CodeBodyNotJSON,
			several("the body is not JSON: expected a member name in quotes at byte 18; got the end of the body",
				idType+`"1"`, "tag must be a string; got 0"),
		},
		{
			"semicolons in a value", `{"name":"","; ":1,"; ":1}`, plant.CodeMemberTwice,
			`member names must be unique, got "; " twice; id is missing, send a 64-bit integer`,
		},
		{
			"more than a message has",
			`{"a":[` + strings.Repeat(`"\ud800",`, 100) + `0]}`, plant.CodeLoneSurrogate,
			several(slices.Repeat([]string{"an array element" + unpaired}, 16)...),
		},
	})
}
