package apidoc

import (
	"html/template"
	"slices"
	"strings"
)

// markdown is a text in the part of CommonMark that the documents use: paragraphs, fenced code, tables, `code` and
// **strong** text. It shows any other mark as text.
type markdown string

// HTML renders the text.
func (m markdown) HTML() template.HTML {
	var b strings.Builder
	lines := strings.Split(strings.TrimSpace(string(m)), "\n")
	for len(lines) > 0 {
		lines = renderBlock(&b, lines)
	}
	return template.HTML(b.String())
}

// renderBlock renders the first block of the lines, and returns the lines after it.
func renderBlock(b *strings.Builder, lines []string) (rest []string) {
	end := func(last func(string) bool) int {
		if i := slices.IndexFunc(lines[1:], last); i >= 0 {
			return i + 1
		}
		return len(lines)
	}
	switch first := lines[0]; {
	case strings.TrimSpace(first) == "":
		return lines[1:]
	case strings.HasPrefix(first, "```"):
		n := end(func(l string) bool { return strings.HasPrefix(l, "```") })
		b.WriteString("<pre>" + template.HTMLEscapeString(strings.Join(lines[1:n], "\n")) + "</pre>")
		return lines[min(n+1, len(lines)):]
	case strings.HasPrefix(first, "|"):
		n := end(func(l string) bool { return !strings.HasPrefix(l, "|") })
		renderTable(b, lines[:n])
		return lines[n:]
	}
	n := end(func(l string) bool {
		return strings.TrimSpace(l) == "" || strings.HasPrefix(l, "```") || strings.HasPrefix(l, "|")
	})
	b.WriteString("<p>" + renderSpan(strings.Join(lines[:n], " ")) + "</p>")
	return lines[n:]
}

// renderTable renders a table. Its second line separates the head. A table that is wider than the window scrolls, so
// the keyboard must reach it.
func renderTable(b *strings.Builder, lines []string) {
	b.WriteString(`<div class="table" tabindex="0"><table><thead>`)
	b.WriteString(renderRow(lines[0], `<th scope="col">`, "</th>") + "</thead><tbody>")
	for _, line := range lines[min(2, len(lines)):] {
		b.WriteString(renderRow(line, "<td>", "</td>"))
	}
	b.WriteString("</tbody></table></div>")
}

// renderRow renders a row of a table, with each cell between open and end.
func renderRow(line, open, end string) string {
	row := "<tr>"
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		row += open + renderSpan(strings.TrimSpace(cell)) + end
	}
	return row + "</tr>"
}

// renderSpan renders the code and the strong text of a paragraph or a cell.
func renderSpan(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(template.HTMLEscapeString(text), "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + part + "</code>")
			continue
		}
		for k, words := range strings.Split(part, "**") {
			if k%2 == 1 {
				words = "<strong>" + words + "</strong>"
			}
			b.WriteString(words)
		}
	}
	return b.String()
}
