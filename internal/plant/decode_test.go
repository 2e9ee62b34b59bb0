package plant_test

import (
	"errors"
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

// nested returns n arrays around nothing.
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
			`{"a":null,"b":true,"c":false,"d":-0.5e+1,"e":"\u0000","f":[],"g":{},"h":[1,"",{"a":[null]}],"i":{"id":"","name":1},"id":1,"name":"Rosa"}`,
			named(1, "Rosa"),
		},
		{"numbers of every form", `{"a":[0,-0,0.0,1e0,1E+00,1e-0,10.25e2,-12],"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"other cases are unknown members", `{"ID":2,"Name":"","TAG":0,"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"empty member name", `{"":1,"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"NUL in an unknown member", `{"a":"\u0000","\u0000":1,"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"the same names in other objects", `{"id":1,"name":"Rosa","a":{"id":1,"name":"","a":{"id":1}},"b":[{"id":1},{"id":1}]}`, named(1, "Rosa")},
		{"many members", "{" + many + `"id":1,"name":"Rosa"}`, named(1, "Rosa")},
		{"depth 64 of arrays", `{"id":1,"name":"Rosa","a":` + nested(63) + `}`, named(1, "Rosa")},
		{"depth 64 of objects", strings.Repeat(`{"id":1,"name":"Rosa","a":`, 63) + "{}" + strings.Repeat("}", 63), named(1, "Rosa")},
		{"depth 64 twice", `{"id":1,"name":"Rosa","a":[` + nested(62) + "," + nested(62) + `]}`, named(1, "Rosa")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := []byte(tt.body)
			got, err := plant.Decode(body)
			clear(body) // of which the plant must keep no reference
			if err != nil || got != tt.want {
				t.Errorf("Decode(%q) = %v, %v; want %v", tt.body, got, err, tt.want)
			}
		})
	}
}

// fault is a body and the refusal that it is answered with.
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
				t.Fatalf("Decode(%.200q) = %v, %v; want nothing and an *Error", tt.body, got, err)
			}
			if refusal.Code != tt.code || refusal.Message != tt.message {
				t.Errorf("Decode(%.200q): got %d %q, want %d %q", tt.body, refusal.Code, refusal.Message, tt.code, tt.message)
			}
		})
	}
}

const (
	sendObject = "send a JSON object with id, name and, if wanted, tag"
	idMissing  = "id is missing: send an integer of 64 bits"
	nameGone   = "name is missing: send a string"
	halfPair   = " has half of a surrogate pair: escape the whole pair, or send the character in UTF-8"
	twice      = " is there twice: send it once"
	idType     = ": send an integer of 64 bits, without quotes"
)

func TestDecodeForm(t *testing.T) {
	t.Parallel()
	notJSON := func(name, body, message string) fault {
		return fault{name, body, plant.CodeBodyNotJSON, "the body is not JSON: " + message}
	}
	checkFaults(t, []fault{
		{"empty", "", plant.CodeBodyMissing, "the body is empty: " + sendObject},
		{"white space", " \r\n\t", plant.CodeBodyMissing, "the body is empty: " + sendObject},
		{"null", "null", plant.CodeBodyNotObject, "the body is null: " + sendObject},
		{"true", "true", plant.CodeBodyNotObject, "the body is a boolean: " + sendObject},
		{"false", " false ", plant.CodeBodyNotObject, "the body is a boolean: " + sendObject},
		{"number", "-1", plant.CodeBodyNotObject, "the body is a number: " + sendObject},
		{"string", `"Rosa"`, plant.CodeBodyNotObject, "the body is a string: " + sendObject},
		{"array", `[{"id":1,"name":"Rosa"}]`, plant.CodeBodyNotObject, "the body is an array: " + sendObject},
		notJSON("byte order mark", "\uFEFF{}", `at byte 0, want a value, found '\ufeff'`),
		notJSON("text", "id=1", "at byte 0, want a value, found 'i'"),
		notJSON("NUL", "\x00", `at byte 0, want a value, found '\x00'`),
		notJSON("NUL behind", "{\"id\":1,\"name\":\"\"}\x00", `at byte 18, want nothing after the value, found '\x00'`),
		notJSON("second value", `{"id":1,"name":""} {}`, "at byte 19, want nothing after the value, found '{'"),
		notJSON("array and more", `[] ,`, "at byte 3, want nothing after the value, found ','"),
		notJSON("half a literal", "tru", "at byte 0, want a value, found 't'"),
		notJSON("other literals", `{"a":NaN}`, "at byte 5, want a value, found 'N'"),
		notJSON("literal and more", "nulll", "at byte 4, want nothing after the value, found 'l'"),
		notJSON("open object", "{", "at byte 1, want a member name in quotes, found the end"),
		notJSON("name without quotes", "{id:1}", "at byte 1, want a member name in quotes, found 'i'"),
		notJSON("single quotes", "{'id':1}", `at byte 1, want a member name in quotes, found '\''`),
		notJSON("comma at the end", `{"id":1,}`, "at byte 8, want a member name in quotes, found '}'"),
		notJSON("comma alone", `{,}`, "at byte 1, want a member name in quotes, found ','"),
		notJSON("no colon", `{"id" 1}`, "at byte 6, want ':', found '1'"),
		notJSON("no value", `{"id":}`, "at byte 6, want a value, found '}'"),
		notJSON("no value for a name", `{"name":,}`, "at byte 8, want a value, found ','"),
		notJSON("no comma", `{"id":1 "name":""}`, "at byte 8, want ',' or '}', found '\"'"),
		notJSON("wrong bracket", `{"a":[1}}`, "at byte 7, want ',' or ']', found '}'"),
		notJSON("comma in an array", `[1,]`, "at byte 3, want a value, found ']'"),
		notJSON("open array", `[1`, "at byte 2, want ',' or ']', found the end"),
		notJSON("comment", `{"id":1 /* */}`, "at byte 8, want ',' or '}', found '/'"),
		notJSON("leading zero", `{"id":01}`, "at byte 7, want ',' or '}', found '1'"),
		notJSON("plus", `{"id":+1}`, "at byte 6, want a value, found '+'"),
		notJSON("minus alone", `{"id":-}`, "at byte 7, want a digit, found '}'"),
		notJSON("point first", `{"id":.5}`, "at byte 6, want a value, found '.'"),
		notJSON("point last", `{"id":1.}`, "at byte 8, want a digit, found '}'"),
		notJSON("exponent without digits", `{"id":1e+}`, "at byte 9, want a digit, found '}'"),
		notJSON("number cut off", `{"a":-`, "at byte 6, want a digit, found the end"),
		notJSON("hexadecimal", `{"id":0x10}`, "at byte 7, want ',' or '}', found 'x'"),
		notJSON("open string", `{"id":1,"name":"Ro`, "at byte 18, want the closing quote of a string, found the end"),
		notJSON("open string with escapes", `{"name":"\n`, "at byte 11, want the closing quote of a string, found the end"),
		notJSON("line end in a string", "{\"name\":\"a\nb\"}", `at byte 10, want an escape for the control character, found '\n'`),
		notJSON("control character after an escape", "{\"name\":\"\\n\x1f\"}", `at byte 11, want an escape for the control character, found '\x1f'`),
		notJSON("NUL in a name", "{\"name\":\"\x00\"}", `at byte 9, want an escape for the control character, found '\x00'`),
		notJSON("unknown escape", `{"name":"\x"}`, `at byte 10, want one of "\/bfnrtu after a backslash, found 'x'`),
		notJSON("backslash at the end", `{"name":"\`, `at byte 10, want one of "\/bfnrtu after a backslash, found the end`),
		notJSON("short escape", `{"name":"\u12g4"}`, `at byte 13, want four hexadecimal digits after \u, found 'g'`),
		notJSON("escape with a sign", `{"name":"\u+123"}`, `at byte 11, want four hexadecimal digits after \u, found '+'`),
		notJSON("escape at the end", `{"name":"\u12`, `at byte 13, want four hexadecimal digits after \u, found the end`),
		notJSON("second escape broken", `{"name":"\ud83d\u"}`, `at byte 17, want four hexadecimal digits after \u, found '"'`),
		notJSON("member name cut off", `{"na`, "at byte 4, want the closing quote of a string, found the end"),
		notJSON("broken value of a wrong type", `{"name":[1}`, "at byte 10, want ',' or ']', found '}'"),
		{"depth 65 of arrays", nested(65), plant.CodeBodyTooDeep, "the body nests deeper than 64 at byte 64"},
		{"depth 65 within", `{"id":1,"name":"Rosa","a":` + nested(64) + `}`, plant.CodeBodyTooDeep, "the body nests deeper than 64 at byte 89"},
		{"depth 65 of objects", strings.Repeat(`{"a":`, 65), plant.CodeBodyTooDeep, "the body nests deeper than 64 at byte 320"},
		{"depth of 30,000", strings.Repeat("[", 30_000), plant.CodeBodyTooDeep, "the body nests deeper than 64 at byte 64"},
	})
}

func TestDecodeContent(t *testing.T) {
	t.Parallel()
	checkFaults(t, []fault{
		{"nothing", "{}", plant.CodeIDMissing, idMissing + "; " + nameGone},
		{"no id", `{"name":"Rosa"}`, plant.CodeIDMissing, idMissing},
		{"no name", `{"id":1}`, plant.CodeNameMissing, nameGone},
		{"names of other case", `{"ID":1,"Name":"Rosa"}`, plant.CodeIDMissing, idMissing + "; " + nameGone},
		{"id string", `{"id":"1","name":"Rosa"}`, plant.CodeIDWrongType, "id is a string" + idType},
		{"id null", `{"id":null,"name":"Rosa"}`, plant.CodeIDWrongType, "id is null" + idType},
		{"id boolean", `{"id":true,"name":"Rosa"}`, plant.CodeIDWrongType, "id is a boolean" + idType},
		{"id array", `{"id":[1],"name":"Rosa"}`, plant.CodeIDWrongType, "id is an array" + idType},
		{"id object", `{"id":{},"name":"Rosa"}`, plant.CodeIDWrongType, "id is an object" + idType},
		{"name number", `{"id":1,"name":1}`, plant.CodeNameWrongType, "name is a number: send a string"},
		{"name null", `{"id":1,"name":null}`, plant.CodeNameWrongType, "name is null: send a string"},
		{"name array", `{"id":1,"name":["Rosa"]}`, plant.CodeNameWrongType, "name is an array: send a string"},
		{"tag null", `{"id":1,"name":"Rosa","tag":null}`, plant.CodeTagWrongType, "tag is null: send a string"},
		{"tag boolean", `{"id":1,"name":"Rosa","tag":false}`, plant.CodeTagWrongType, "tag is a boolean: send a string"},
		{"tag object", `{"id":1,"name":"Rosa","tag":{}}`, plant.CodeTagWrongType, "tag is an object: send a string"},
		{"name NUL", `{"id":1,"name":"a\u0000"}`, plant.CodeNameHasNUL, "name has the character U+0000: leave it out"},
		{"tag NUL", `{"id":1,"name":"a","tag":"\u0000"}`, plant.CodeTagHasNUL, "tag has the character U+0000: leave it out"},
		{"high surrogate", `{"id":1,"name":"\ud800"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"low surrogate", `{"id":1,"name":"\udc00a"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"high surrogate before a letter", `{"id":1,"name":"\uDBFFabcdef"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"high surrogate before an escape", `{"id":1,"name":"\ud800\n"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"high surrogate before another character", `{"id":1,"name":"\ud800\u0061"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"two high surrogates", `{"id":1,"name":"\ud800\ud800"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"high surrogate before a pair", `{"id":1,"name":"\ud800\ud83d\ude00"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"pair the wrong way round", `{"id":1,"name":"\ude00\ud83d"}`, plant.CodeLoneSurrogate, "name" + halfPair},
		{"surrogate before NUL", `{"id":1,"name":"\ud800\u0000"}`, plant.CodeLoneSurrogate, "name" + halfPair + "; name has the character U+0000: leave it out"},
		{"surrogate in the tag", `{"id":1,"name":"","tag":"\ud800"}`, plant.CodeLoneSurrogate, "tag" + halfPair},
		{"surrogate in an unknown member", `{"id":1,"name":"","a":["\ud800"]}`, plant.CodeLoneSurrogate, "an array" + halfPair},
		{"surrogate in a member name", `{"id":1,"name":"","\ud800":1}`, plant.CodeLoneSurrogate, "a member name" + halfPair},
		{"id twice", `{"id":1,"name":"","id":1}`, plant.CodeMemberTwice, `the member "id"` + twice},
		{"name twice", `{"id":1,"name":"","name":2}`, plant.CodeMemberTwice, `the member "name"` + twice},
		{"tag twice", `{"id":1,"tag":"","name":"","tag":null}`, plant.CodeMemberTwice, `the member "tag"` + twice},
		{"twice, once escaped", `{"id":1,"\u0069d":1,"name":""}`, plant.CodeMemberTwice, `the member "id"` + twice},
		{"twice, first escaped", `{"\u0069\u0064":1,"x":"\t","id":1,"name":""}`, plant.CodeMemberTwice, `the member "id"` + twice},
		{"unknown twice", `{"a":1,"id":1,"name":"","a":1}`, plant.CodeMemberTwice, `the member "a"` + twice},
		{"twice in a nested object", `{"id":1,"name":"","x":[{"y":{"a":1,"a":2}}]}`, plant.CodeMemberTwice, `the member "a"` + twice},
		{
			"twice among many", `{"id":1,"name":"","a":1,"b":1,"c":1,"\u0064":1,"e":1,"f":1,"g":1,"\u0068":1,"i":1,"d":1,"h":1,"i":2}`,
			plant.CodeMemberTwice, `the member "d"` + twice + `; the member "h"` + twice + `; the member "i"` + twice,
		},
		{
			"long name twice", `{"id":1,"name":"","` + strings.Repeat("é", 30) + `":1,"` + strings.Repeat("é", 30) + `":1}`,
			plant.CodeMemberTwice, `the member "` + strings.Repeat("é", 20) + `"…` + twice,
		},
		{
			"long name twice, cut within a character", `{"id":1,"name":"","a` + strings.Repeat("é", 30) + `":1,"a` + strings.Repeat("é", 30) + `":1}`,
			plant.CodeMemberTwice, `the member "a` + strings.Repeat("é", 19) + `"…` + twice,
		},
		{"not UTF-8", "{\"id\":1,\"name\":\"\xff\"}", plant.CodeBodyNotUTF8, "the body is not UTF-8: byte 16 begins no valid character"},
		{"surrogate in UTF-8", "{\"id\":1,\"name\":\"\xed\xa0\x80\"}", plant.CodeBodyNotUTF8, "the body is not UTF-8: byte 16 begins no valid character"},
		{"overlong", "{\"id\":1,\"name\":\"\xc0\x80\"}", plant.CodeBodyNotUTF8, "the body is not UTF-8: byte 16 begins no valid character"},
		{"not UTF-8 in an unknown member", "{\"id\":1,\"name\":\"\uFFFD\",\"\xe9\":1}", plant.CodeBodyNotUTF8, "the body is not UTF-8: byte 22 begins no valid character"},
		{
			"not UTF-8 and not JSON", "\xff", plant.CodeBodyNotJSON,
			"the body is not JSON: at byte 0, want a value, found the byte 0xFF; the body is not UTF-8: byte 0 begins no valid character",
		},
		{
			"several faults", `{"tag":null,"name":"\u0000","a":"\udc00","a":1}`, plant.CodeMemberTwice,
			`the member "a"` + twice + "; a member that is not part of a plant" + halfPair + "; " + idMissing +
				"; name has the character U+0000: leave it out; tag is null: send a string",
		},
		{"all of wrong type", `{"tag":1,"name":[],"id":"1"}`, plant.CodeIDWrongType, "id is a string" + idType + "; name is an array: send a string; tag is a number: send a string"},
		{
			"faults before broken JSON", `{"id":"1","tag":0,`, plant.CodeBodyNotJSON,
			"the body is not JSON: at byte 18, want a member name in quotes, found the end; id is a string" + idType + "; tag is a number: send a string",
		},
		{
			"more faults than are said", `{"a":[` + strings.Repeat(`"\ud800",`, 100) + `0]}`, plant.CodeLoneSurrogate,
			strings.TrimSuffix(strings.Repeat("an array"+halfPair+"; ", 16), "; "),
		},
	})
}
