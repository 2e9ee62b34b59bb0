package apidoc_test

import (
	"html/template"
	"regexp"
	"strings"
	"testing"

	"plantstore/internal/apidoc"
	"plantstore/internal/plant"
)

const source = `# a comment
openapi: 3.1.0
info: {title: Leaves, version: 2.0.0, summary: Of trees., description: "Use {address}."}
servers: [{url: "{server}", description: The base.}]
tags: [{name: leaves, description: Green.}, {name: unused, description: Brown.}]
paths:
  /leaves:
    get:
      operationId: listLeaves
      tags: [leaves]
      summary: List the leaves
      security: []
      x-max: !number "{max}"
      responses:
        "200": {description: "<All>", content: {application/json: {schema: {$ref: '#/components/schemas/Leaf'}}}}
        "404": {$ref: '#/components/responses/None'}
components:
  responses:
    None: {description: None.}
  schemas:
    Leaf:
      description: "{errorTable}"
      type: object
      required: [size]
      properties:
        size: {type: integer, minimum: -9223372036854775808, maximum: 9223372036854775807}
`

func TestForms(t *testing.T) {
	t.Parallel()
	const address = "https://plants.example"
	d, err := apidoc.New([]byte(source), map[string]string{"address": address, "server": address, "max": "12"},
		[]plant.Entry{{Code: 40001, Name: "no-leaf", Meaning: "There is no leaf."}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Title != "Leaves" || d.Version != "2.0.0" || d.Summary != "Of trees." {
		t.Errorf("got the title %q, the version %q and the summary %q", d.Title, d.Version, d.Summary)
	}
	for form, want := range map[string][]string{
		string(d.JSON): {
			`"x-max": 12`, `"minimum": -9223372036854775808`, `"description": "Use https://plants.example."`, `"<All>"`,
		},
		string(d.YAML): {"x-max: 12", "Use https://plants.example.", "| 40001 | no-leaf | There is no leaf. |"},
		string(d.HTML): {
			`id="listLeaves"`, `href="#schema-Leaf"`, `href="#response-None"`, "&lt;All&gt;", "<td>no-leaf</td>",
			"-9223372036854775808 to 9223372036854775807", "no credential",
		},
	} {
		for _, text := range want {
			if !strings.Contains(form, text) {
				t.Errorf("no %q in\n%s", text, form)
			}
		}
		for _, text := range []string{"a comment", "{address}", "{errorTable}"} {
			if strings.Contains(form, text) {
				t.Errorf("%q is in\n%s", text, form)
			}
		}
	}
	if strings.Contains(string(d.HTML), "Brown.") {
		t.Error("the page has a tag without an operation")
	}
}

// The page needs no script, no inline style and no other host.
func TestPage(t *testing.T) {
	t.Parallel()
	d, err := apidoc.New([]byte(source), map[string]string{"server": "/", "max": "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	page, err := d.Page("/a b")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<title>Leaves API</title>", `href="/a%20b/docs/apidoc.css"`, `href="/a%20b/openapi.json"`,
		"<code>/</code>. The base.", string(d.HTML),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if found := regexp.MustCompile(`<script|<style|\son[a-z]+=|\sstyle=|//`).Find(page); found != nil {
		t.Errorf("the page has %q", found)
	}
}

func TestFaultySources(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not YAML":        "a: [",
		"number not JSON": "a: 0x10",
		"alias":           "a: &b 1\nc: *b",
	} {
		if _, err := apidoc.New([]byte(text), nil, nil); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestBreaks shows where a line of a long text may end.
func TestBreaks(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]template.HTML{
		"":                                 "",
		"Rosa canina L.":                   "Rosa canina L.",
		"https://shop.example/events?a=<b": "https://<wbr>shop.<wbr>example/<wbr>events?<wbr>a=&lt;b",
		"north_wing-2":                     "north_<wbr>wing-<wbr>2",
		"127.0.0.1:8081":                   "127.0.0.1:8081",
		"0123456789abcdef0123456789abcdef": "0123456789abcdef<wbr>0123456789abcdef",
		"0123456789abcde\u0301\u0301f":     "0123456789abcde\u0301\u0301<wbr>f",
		"a word, and another":              "a word, and another",
		"set --backup-dir,s3://plants/a":   `set <span class="flag">--backup-dir</span>,s3://<wbr>plants/<wbr>a`,
	} {
		if got := apidoc.Breaks(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
