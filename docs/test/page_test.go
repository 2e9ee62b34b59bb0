package pages

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// step is one fenced block that the test executes: a script for a terminal, or a file to write.
type step struct {
	Line     int    // where the fence is on the page
	Text     string // the script, or the content of the file
	Terminal string // runs the script
	Exit     int    // exit code that a script must have
	Path     string // names a file; empty for a script
	Want     *block // the output that the page shows for a script, if it shows any
}

// block is the output of a script as the page shows it.
type block struct {
	Line int
	Text string
}

var (
	fence     = regexp.MustCompile("^( *)```(.*)$")
	attribute = regexp.MustCompile(`^(terminal|exit|file)=(\S+)$`)
)

// parse returns the steps of a page in their order. README.md describes the fences.
func parse(text string) (steps []step, err error) {
	var open *step // the block of the current line
	var info, indent string
	for i, line := range strings.Split(text, "\n") {
		match := fence.FindStringSubmatch(line)
		switch {
		case match == nil && open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		case match != nil && open == nil:
			open, indent, info = &step{Line: i + 1}, match[1], match[2]
		case match != nil && match[2] != "":
			return nil, fmt.Errorf("line %d: a fence opens inside the block of line %d", i+1, open.Line)
		case match != nil:
			if steps, err = add(steps, open, info); err != nil {
				return nil, err
			}
			open = nil
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the fence is not closed", open.Line)
	}
	return steps, nil
}

// add adds a block to the steps, or to the last of them as its output.
func add(steps []step, s *step, info string) ([]step, error) {
	words := strings.Fields(info)
	if len(words) == 0 {
		return nil, fmt.Errorf("line %d: the fence has no language", s.Line)
	}
	language := words[0]
	for _, word := range words[1:] {
		match := attribute.FindStringSubmatch(word)
		if match == nil {
			return nil, fmt.Errorf("line %d: unknown attribute %q", s.Line, word)
		}
		switch match[1] {
		case "terminal":
			s.Terminal = match[2]
		case "file":
			s.Path = match[2]
		case "exit":
			code, err := strconv.Atoi(match[2])
			if err != nil {
				return nil, fmt.Errorf("line %d: exit code %q is not a number", s.Line, match[2])
			}
			s.Exit = code
		}
	}
	switch {
	case s.Path != "":
		return append(steps, *s), nil
	case language == "sh":
		if s.Terminal == "" {
			s.Terminal = "1"
		}
		return append(steps, *s), nil
	case language == "text" || language == "console":
		if len(steps) == 0 || steps[len(steps)-1].Path != "" || steps[len(steps)-1].Want != nil {
			return nil, fmt.Errorf("line %d: the output belongs to no script", s.Line)
		}
		last := &steps[len(steps)-1]
		last.Want = &block{s.Line, s.Text}
		if last.Terminal != "1" && matches(s.Text, "", false) {
			return nil, fmt.Errorf("line %d: it matches no output, so the next step would not wait for the script", s.Line)
		}
	}
	return steps, nil
}
