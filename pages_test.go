package plantstore_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`(Test[A-Z]\\w+)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
)

// TestNamedTestsExist checks that each test that a page names exists, also in faults/.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	for _, dir := range []string{"cmd", "internal", "faults", "docs"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, "_test.go") {
				for _, match := range testFunc.FindAllStringSubmatch(read(t, name), -1) {
					defined[match[1]] = true
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range files(t, ".md") {
		for _, match := range testName.FindAllStringSubmatch(read(t, page), -1) {
			if !defined[match[1]] {
				t.Errorf("%s names %s, which no package defines", page, match[1])
			}
		}
	}
}

// TestIndexHasEveryPage checks that docs/README.md links each page below docs/.
func TestIndexHasEveryPage(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	linked := map[string]bool{index: true, "docs/test/README.md": true} // the latter is for contributors
	for _, match := range link.FindAllStringSubmatch(read(t, index), -1) {
		linked[filepath.Join("docs", match[1]+match[2])] = true
	}
	for _, page := range files(t, ".md") {
		if strings.HasPrefix(page, "docs/") && !linked[page] {
			t.Errorf("%s has no link to %s", index, page)
		}
	}
}

// TestTablesFitAScreen checks the length of the cells and rows of tables, without the targets of links.
func TestTablesFitAScreen(t *testing.T) {
	t.Parallel()
	const cellMax, rowMax = 110, 200
	target := regexp.MustCompile(`\]\([^)]*\)`)
	for _, page := range files(t, ".md") {
		for row := range strings.Lines(fenced.ReplaceAllString(read(t, page), "")) {
			if !strings.HasPrefix(row, "|") {
				continue
			}
			row = strings.TrimSpace(target.ReplaceAllString(row, "]"))
			longest := 0
			for cell := range strings.SplitSeq(row, " | ") {
				longest = max(longest, len([]rune(cell)))
			}
			if n := len([]rune(row)); longest > cellMax || n > rowMax {
				t.Errorf("%s: a row has %d characters (at most %d) and a cell %d (at most %d): "+
					"put the text below the table:\n%s", page, n, rowMax, longest, cellMax, row)
			}
		}
	}
}
