package plantstore_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	logsPage      = "docs/reference/logs.md"
	guaranteeFile = "internal/postgres/durability.go" // logs the warnings of the guarantee
)

// logLine is a message of the log with its level and its keys, in the order of the code.
type logLine struct{ message, level, keys string }

// documentedLine matches the messages of the page: - **`message`** (level; `key`, `key`): meaning
var documentedLine = regexp.MustCompile("(?m)^- \\*\\*`([^`]+)`\\*\\* \\((\\w+)(?:; ([^)]*))?\\): \\S")

// TestLogMessages compares the messages on the page with those in the sources.
func TestLogMessages(t *testing.T) {
	t.Parallel()
	documented := map[logLine]bool{}
	for _, match := range documentedLine.FindAllStringSubmatch(strings.ReplaceAll(read(t, logsPage), "\n  ", " "), -1) {
		documented[logLine{match[1], match[2], strings.ReplaceAll(match[3], "`", "")}] = true
	}
	logged := map[logLine]bool{}
	for _, file := range goFiles(t) {
		if !file.test {
			for _, line := range logLines(t, file.path) {
				logged[line] = true
			}
		}
	}
	if len(logged) < 20 {
		t.Fatalf("found only %d messages in the sources", len(logged))
	}
	for _, line := range slices.SortedFunc(maps.Keys(logged), compareLines) {
		if !documented[line] {
			t.Errorf("%s lacks this line:\n- **`%s`** (%s%s): MEANING", logsPage, line.message, line.level, keyList(line.keys))
		}
	}
	for _, line := range slices.SortedFunc(maps.Keys(documented), compareLines) {
		if !logged[line] {
			t.Errorf("%s has %q (%s%s), which no source has", logsPage, line.message, line.level, keyList(line.keys))
		}
	}
}

func compareLines(a, b logLine) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

func keyList(keys string) string {
	if keys == "" {
		return ""
	}
	return "; `" + strings.ReplaceAll(keys, ", ", "`, `") + "`"
}

// logLines returns the messages that a file logs with log/slog.
func logLines(t *testing.T, path string) (lines []logLine) {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		level, message, rest := logCall(call)
		if level == "" {
			return true
		}
		text, ok := literal(message)
		if !ok {
			if path != guaranteeFile {
				t.Errorf("%s: the message is not a literal", set.Position(call.Pos()))
			}
			return true
		}
		lines = append(lines, logLine{text, level, strings.Join(logKeys(rest), ", ")})
		return true
	})
	return lines
}

// logLevels are the methods of a slog.Logger that log.
var logLevels = map[string]string{"Debug": "debug", "Info": "info", "Warn": "warn", "Error": "error", "Log": "varies"}

// logCall returns level, message and attributes of a call of a logger; level is "" for any other call.
func logCall(call *ast.CallExpr) (level string, message ast.Expr, rest []ast.Expr) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil, nil
	}
	receiver := method.X
	if field, ok := receiver.(*ast.SelectorExpr); ok {
		receiver = field.Sel
	}
	name, ok := receiver.(*ast.Ident)
	if !ok {
		return "", nil, nil
	}
	switch level := logLevels[method.Sel.Name]; {
	case name.Name == "slog" && method.Sel.Name == "NewRecord": // of the access log, whose level and keys vary
		return "varies", call.Args[2], nil
	case !strings.HasSuffix(strings.ToLower(name.Name), "log") || level == "":
		return "", nil, nil
	case method.Sel.Name == "Log":
		return level, call.Args[2], call.Args[3:]
	default:
		return level, call.Args[0], call.Args[1:]
	}
}

// literal returns the text of a string literal. A text that is built from several parts has … for each other part.
func literal(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok1 := literal(e.X)
		right, ok2 := literal(e.Y)
		if !ok1 {
			left = "…"
		}
		if !ok2 {
			right = "…"
		}
		return left + right, ok1 || ok2
	}
	return "", false
}

// logKeys returns the keys of the attributes of a call.
func logKeys(args []ast.Expr) (keys []string) {
	for i := 0; i < len(args); i++ {
		e := args[i]
		if attr, ok := e.(*ast.CallExpr); ok && len(attr.Args) > 0 { // slog.String("key", value)
			e = attr.Args[0]
		} else {
			i++ // the value
		}
		if key, ok := literal(e); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
