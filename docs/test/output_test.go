package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// varying are the parts of an output that differ from run to run. Each is replaced on the page and in the real output,
// so that a page shows a plausible value.
var varying = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`pst_[0-9A-Za-z]+`), "TOKEN"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "SHA256"},
	{regexp.MustCompile(`(?i)(x-request-id: |request_id=|"request_id":")[\w-]+`), "${1}ID"},
	{regexp.MustCompile(`(?i)(date: )\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT`), "${1}TIME"},
	{regexp.MustCompile(`\b\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d(:?\d\d)?(\.\d+)?(Z| UTC|[+-]\d\d:?\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "TIME"},
	{regexp.MustCompile(`_us=\d+`), "_us=TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(µs|us|ms|s)\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(B|bytes|[kKMG]i?B)\b`), "SIZE"},
	{regexp.MustCompile(`\bgo1\.\d+(\.\d+)?`), "GO"},
	{regexp.MustCompile(`\bdigest [0-9a-f]+`), "digest DIGEST"},
	{regexp.MustCompile("\uFEFF"), ""}, // a terminal does not show it
	{regexp.MustCompile(`[ \t\r]+(\n|$)`), "$1"},
}

func normal(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.name)
	}
	return text
}

// pattern is the regular expression of an output on a page. A line that is "…" stands for any lines, "…" inside a
// line for any text of that line.
func pattern(want string, whole bool) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for line := range strings.Lines(normal(want)) {
		if strings.TrimSpace(line) == "…" {
			b.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `[^\n]*?`))
	}
	if whole {
		b.WriteString(`\z`)
	}
	return regexp.MustCompile(b.String())
}

// matches reports whether the output is the one that the page shows; if not whole, whether it begins with it.
func matches(want, got string, whole bool) bool {
	if got != "" && !strings.HasSuffix(got, "\n") && whole {
		got += "\n"
	}
	return pattern(want, whole).MatchString(normal(got))
}

// mismatch describes an output that is not the one that the page shows.
func mismatch(want *block, got string) error {
	return fmt.Errorf("line %d: the output differs from the page\n--- page\n%s--- output\n%s",
		want.Line, normal(want.Text), normal(got))
}
