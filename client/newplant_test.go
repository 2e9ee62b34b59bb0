package client_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/client"
	"plantstore/internal/plant"
)

// bodies has a plant, or a fault of one, in each form that the server tells apart.
var bodies = []string{
	`{"id":1,"name":"Rosa canina","tag":"shrub"}`,
	" {\n\t\"tag\" : \"\", \"name\":\"\", \"id\":-9223372036854775808}\r\n",
	`{"\u0069d":1e3,"n\u0061me":"\"\\\/\b\f\n\r\t\u00e9😀\uFFFD"}`,
	`{"id":1,"name":"\ud83d\ude00","tag":"\\ud800 \\\ud83d\ude00"}`,
	"{\"id\":1,\"name\":\"\u2028\uFFFD\"}",
	`{"id":1,"name":"Rosa","ID":2,"Name":null,"TAG":0,"a":[{"id":1},{"id":1}],"":"\u0000"}`,
	`{"id":1,"name":"Rosa","a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,

	``, `{"id":1`, "\uFEFF{}", `{"id":1,"name":"Rosa"} {}`, `{"id":1,"name":"Rosa",}`, `{"id":01,"name":"Rosa"}`,
	"{\"id\":1,\"name\":\"caf\xe9\"}", "{\"id\":1,\"name\":\"\xed\xa0\x80\"}", "{\"id\":1,\"name\":\"\",\"\xff\":1}",
	`{"id":1,"name":"Rosa","a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
	strings.Repeat(`{"id":1,"name":"","a":`, 65) + "1" + strings.Repeat("}", 65),
	`null`, `true`, `1`, `"Rosa"`, `[{"id":1,"name":"Rosa"}]`,
	`{"id":1,"name":"Rosa","id":1}`, `{"id":1,"name":"Rosa","n\u0061me":"Acer"}`, `{"id":1,"name":"","a":[{"b":1,"b":1}]}`,
	`{"id":1,"name":"\ud800"}`, `{"id":1,"name":"\udc00\ud800"}`, `{"id":1,"name":"\ud800\ud800\udc00"}`,
	`{"id":1,"name":"\ud800\n"}`, `{"id":1,"name":"","\uDFFF":1}`, `{"id":1,"name":"","a":["\\\ud800"]}`,
	`{}`, `{"name":"Rosa"}`, `{"ID":1,"name":"Rosa"}`, `{"id":null,"name":"Rosa"}`, `{"id":"1","name":"Rosa"}`,
	`{"id":1.5,"name":"Rosa"}`, `{"id":10e-1,"name":""}`, `{"id":-0.00,"name":""}`, `{"id":0e99999999999,"name":""}`,
	`{"id":0.001e3,"name":""}`, `{"id":1e-1,"name":""}`, `{"id":1e18,"name":""}`, `{"id":1e19,"name":""}`,
	`{"id":1e99999999999999999999,"name":""}`, `{"id":1e-99999999999999999999,"name":""}`,
	`{"id":9223372036854775807.0,"name":""}`, `{"id":9223372036854775808,"name":""}`,
	`{"id":-9223372036854775809,"name":""}`, `{"id":-9.223372036854775808E+18,"name":""}`,
	`{"id":9.2233720368547758085e18,"name":""}`,
	`{"id":1}`, `{"id":1,"Name":"Rosa"}`, `{"id":1,"name":null}`, `{"id":1,"name":["Rosa"]}`, `{"id":1,"name":"\u0000"}`,
	`{"id":1,"name":"Rosa","tag":null}`, `{"id":1,"name":"Rosa","tag":{}}`, `{"id":1,"name":"Rosa","tag":"a\u0000"}`,
}

// TestUnmarshalJSON compares UnmarshalJSON with the decoder of the server, which the tests of package plant test.
func TestUnmarshalJSON(t *testing.T) {
	t.Parallel()
	for _, body := range bodies {
		sameAsServer(t, []byte(body))
	}
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, body := range bodies {
		f.Add([]byte(body))
	}
	f.Fuzz(sameAsServer)
}

// sameAsServer checks that a program reads the plant that the server reads, or receives an error like it.
func sameAsServer(t *testing.T, body []byte) {
	t.Helper()
	accepted, refusal := plant.Decode(body)
	want := client.NewPlant{ID: accepted.ID, Name: accepted.Name}
	if tag, ok := accepted.Tag.Get(); ok {
		want.Tag = &tag
	}
	var got client.NewPlant
	err := json.Unmarshal(body, &got)
	if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (refusal == nil) {
		t.Errorf("%.200q: got %v, server: %v (-server +got)\n%s", body, err, refusal, diff)
	}
}
