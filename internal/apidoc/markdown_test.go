package apidoc_test

import (
	"testing"

	"plantstore/internal/apidoc"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                 "",
		"one\ntwo\n\nthree":                "<p>one two</p><p>three</p>",
		"**a** `b**c` <script>":            "<p><strong>a</strong> <code>b**c</code> &lt;script&gt;</p>",
		"a `<b>`:\n```sh\nx <y>\n\nz\n```": "<p>a <code>&lt;b&gt;</code>:</p><pre>x &lt;y&gt;\n\nz</pre>",
		"```\nopen":                        "<pre>open</pre>",
		"| a | b |\n|---|---|\n| `1` | < |": `<div class="table" tabindex="0"><table><thead><tr><th scope="col">a</th>` +
			`<th scope="col">b</th></tr></thead><tbody><tr><td><code>1</code></td><td>&lt;</td></tr></tbody></table></div>`,
	} {
		if got := apidoc.RenderMarkdown(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
