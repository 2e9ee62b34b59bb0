package plantstore_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w+)\(`)
)

// TestNamedTestsExist checks that each test that a page names exists, also in faults/.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
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

// requirements50 is the number of requirements of levels 1 and 2 in each section of ASVS 5.0.0. They are the first ones
// of their section.
var requirements50 = map[string]int{
	"1.1": 2, "1.2": 9, "1.3": 11, "1.4": 3, "1.5": 2, "2.1": 3, "2.2": 3, "2.3": 4, "2.4": 1,
	"3.2": 2, "3.3": 4, "3.4": 6, "3.5": 5, "3.7": 2, "4.1": 3, "4.2": 1, "4.3": 2, "4.4": 4,
	"5.1": 1, "5.2": 3, "5.3": 2, "5.4": 3, "6.1": 3, "6.2": 12, "6.3": 4, "6.4": 4, "6.5": 5, "6.6": 3, "6.8": 4,
	"7.1": 3, "7.2": 4, "7.3": 2, "7.4": 5, "7.5": 2, "7.6": 2, "8.1": 2, "8.2": 3, "8.3": 1, "8.4": 1,
	"9.1": 3, "9.2": 4, "10.1": 2, "10.2": 2, "10.3": 4, "10.4": 11, "10.5": 5, "10.6": 2, "10.7": 3,
	"11.1": 2, "11.2": 3, "11.3": 3, "11.4": 4, "11.5": 1, "11.6": 1, "12.1": 3, "12.2": 2, "12.3": 4,
	"13.1": 1, "13.2": 5, "13.3": 2, "13.4": 5, "14.1": 2, "14.2": 4, "14.3": 3, "15.1": 3, "15.2": 3, "15.3": 7,
	"16.1": 1, "16.2": 5, "16.3": 4, "16.4": 3, "16.5": 3, "17.1": 1, "17.2": 4, "17.3": 2,
}

// TestSecurityControlsAreComplete checks that the page of security controls has one row for each requirement.
func TestSecurityControlsAreComplete(t *testing.T) {
	t.Parallel()
	const page = "docs/reference/security.md"
	rows := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^- (\d+\.\d+\.\d[^:]*): `).FindAllStringSubmatch(read(t, page), -1) {
		for part := range strings.SplitSeq(row[1], ", ") {
			first, last, _ := strings.Cut(part, "–")
			dot := strings.LastIndex(first, ".")
			from, err1 := strconv.Atoi(first[dot+1:])
			to, err2 := from, error(nil)
			if last != "" {
				to, err2 = strconv.Atoi(strings.TrimPrefix(last, first[:dot+1]))
			}
			if err1 != nil || err2 != nil {
				t.Fatalf("%s: malformed requirement %q", page, part)
			}
			for n := from; n <= to; n++ {
				rows[first[:dot+1]+strconv.Itoa(n)]++
			}
		}
	}
	for section, count := range requirements50 {
		for n := 1; n <= count; n++ {
			name := section + "." + strconv.Itoa(n)
			if rows[name] != 1 {
				t.Errorf("%s has %d rows for %s, want 1", page, rows[name], name)
			}
			delete(rows, name)
		}
	}
	for name := range rows {
		t.Errorf("%s has a row for %s, which is no requirement of level 1 or 2", page, name)
	}
}
