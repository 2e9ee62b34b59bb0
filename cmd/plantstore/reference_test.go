package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/config"
	"plantstore/internal/serve"
)

const referenceDir = "../../docs/reference/"

// checkPage compares a page of docs/reference with its generated text, and writes it with -update.
func checkPage(t *testing.T, name, generated string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(referenceDir+name, []byte(generated), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(referenceDir + name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(generated, string(page)); diff != "" {
		t.Errorf("docs/reference/%s is stale; run go test ./cmd/plantstore -run TestReference -update "+
			"(-generated +page):\n%s", name, diff)
	}
}

// generatedBy is the last sentence of the introduction of a generated page.
func generatedBy(source string) string {
	return "`go test ./cmd/plantstore -run TestReference -update` generates this page from " + source + ".\n"
}

// code returns a text as inline code; an empty text stays empty.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// tableRow returns a row of a table.
func tableRow(cells ...string) string {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// tableHead returns the first two rows of a table.
func tableHead(cells ...string) string {
	return tableRow(cells...) + strings.Repeat("|---", len(cells)) + "|\n"
}

// wrapped returns paragraphs with lines of at most 120 characters.
func wrapped(text string) string {
	var out strings.Builder
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			out.WriteString("\n")
		}
		column := 0
		for j, word := range strings.Fields(paragraph) {
			switch {
			case j > 0 && column+1+len(word) > 120:
				out.WriteString("\n")
				column = 0
			case j > 0:
				out.WriteString(" ")
				column++
			}
			out.WriteString(word)
			column += len(word)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// TestReferenceSettings compares docs/reference/settings.md with the table of settings.
func TestReferenceSettings(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	s := new(config.Settings)
	s.BindServe(flags)
	var page, more strings.Builder
	page.WriteString("# Settings\n\n" + wrapped("The flag `--body-max` is also the variable `"+config.Variable("body-max")+
		"` and the key `body-max` of the settings file; only `--config` has no key. [Configuration](configuration.md) "+
		"has the order of precedence. A [reload](configuration.md#reload) changes those marked ↻ while the server runs. "+
		"A size is a number of bytes, or has the unit KiB, MiB or GiB. A time has the units d, h, m, s and ms, such as "+
		"`1d12h`. `go test ./cmd/plantstore -run TestReference -update` writes the tables; people write the sections."))
	written, err := settingTexts()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range s.Groups() {
		page.WriteString("\n**" + g.Title + "**\n\n" + tableHead("flag", "default", "purpose"))
		for _, s := range g.Settings {
			f := flags.Lookup(s.Name)
			unit, usage := pflag.UnquoteUsage(f)
			if s.Reloadable() {
				usage += " ↻"
			}
			initial := code(f.DefValue)
			if unit == "" { // false
				initial = ""
			}
			page.WriteString(tableRow(code(strings.TrimSpace("--"+s.Name+" "+unit)), initial, usage))
			if text := written[s.Name]; text != "" {
				more.WriteString("\n## " + s.Name + "\n\n" + wrapped(text))
			}
		}
	}
	page.WriteString(more.String())
	page.WriteString("\n## Other environment variables\n\n" + tableHead("variable", "purpose"))
	for _, v := range otherVariables {
		page.WriteString(tableRow(code(v[0]), v[1]))
	}
	checkPage(t, "settings.md", page.String())
}

// otherVariables are the variables of the environment that are not settings.
var otherVariables = [][2]string{
	{
		config.TokenVariable,
		"secret of the token for `--server`; without `--server`, of the token that `token revoke` revokes",
	},
	{config.WebhookSecretVariable, "secrets of the [webhooks](webhooks.md), with a space between them, instead of a file"},
	{config.ClientSecretVariable, "secret of the console as a client of the issuer, instead of a file"},
	{
		"GOMAXPROCS",
		fmt.Sprintf("threads that run Go code; `serve` and `import` raise the default to %d", serve.ProcessorsMin),
	},
	{"GOGC", fmt.Sprintf("garbage collection; default %d in `serve` and `import`", serve.CollectAtPercent)},
	{
		"GOMEMLIMIT", fmt.Sprintf("soft memory limit; default in `serve` and `import`: 3/4 of the memory, without %s",
			config.FormatBytes(serve.EngineBytes)),
	},
	{"OTEL_…", "export of traces; off by default; see [traces](traces.md)"},
	{"HTTP_PROXY, HTTPS_PROXY, NO_PROXY", "proxy of the export of traces"},
	{"LISTEN_…, NOTIFY_SOCKET, WATCHDOG_USEC", "from systemd, see [service manager](configuration.md#service-manager)"},
	{"TMPDIR", "directory of the temporary file of `backup -`; default: that of the store"},
	{"PGPASSWORD", "password of the PostgreSQL user"},
	{"PGPASSFILE", "file with passwords of PostgreSQL users; default `~/.pgpass`"},
	{"PG…", "libpq's other variables, such as `PGUSER`: defaults of the URL in `--db`"},
}

// settingTexts returns the text of docs/reference/settings.md about each setting by name, with the range of its values.
// A paragraph is one line. It reads the page once, because -update writes it.
var settingTexts = sync.OnceValues(func() (map[string]string, error) {
	page, err := os.ReadFile(referenceDir + "settings.md")
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		texts[name] = text
	}
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	new(config.Settings).BindServe(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		paragraphs := strings.Split(strings.TrimSpace(rangeSentence.ReplaceAllString(texts[f.Name], "")), "\n\n")
		for i, paragraph := range paragraphs {
			paragraphs[i] = strings.Join(strings.Fields(paragraph), " ")
		}
		texts[f.Name] = strings.TrimSpace(strings.Join(paragraphs, "\n\n") + " " + rangeOf(f.Value))
	})
	return texts, nil
})

var rangeSentence = regexp.MustCompile(`Range:\s\S+\sto\s\S+\.\s*$`)

// rangeOf returns the sentence about the range of a value, from the error about a number beyond it.
func rangeOf(value pflag.Value) string {
	err := value.Set("9999999999999")
	if err == nil {
		return ""
	}
	_, limits, ok := strings.Cut(err.Error(), " is out of range; use ")
	if !ok {
		return ""
	}
	return "Range: " + limits + "."
}

// TestSettingsTable covers every row: a valid default, a version, a usage line with its unit, and a field of settings.
func TestSettingsTable(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	settings := new(config.Settings)
	settings.BindServe(flags)
	rows := settings.AllSettings()
	for _, s := range rows {
		if s.Initial != "" && s.Value.Set(s.Initial) != nil || s.Value.String() != flags.Lookup(s.Name).DefValue {
			t.Errorf("%s: the default %q is invalid", s.Name, s.Initial)
		}
		unit, usage := pflag.UnquoteUsage(flags.Lookup(s.Name))
		if usage == "" || unit == "" && s.Value.Type() != "bool" {
			t.Errorf("%s: unit %q and usage %q must not be empty", s.Name, unit, usage)
		}
	}
	serve, _, err := newRoot(&program{}).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	serve.LocalFlags().VisitAll(func(f *pflag.Flag) {
		isRow := slices.ContainsFunc(rows, func(s config.Setting) bool { return s.Name == f.Name })
		if !isRow && f.Name != "check" {
			t.Errorf("--%s of serve has no row in the table of settings", f.Name)
		}
	})
}

// exitCodes describes the exit codes. docs/reference/exit-codes.md is generated from it.
var exitCodes = []struct {
	code    int
	meaning string
	more    string
}{
	{exitOK, "the command succeeded", ""},
	{exitFailure, "the command failed", "Standard error has the reason."},
	{
		exitUsage, "wrong usage",
		"A command, flag, setting or value is unknown or invalid, or the backup directory belongs to another server or " +
			"store. The command changed nothing.",
	},
	{
		exitIO, "the store is not usable",
		"The disk failed, the store is damaged, or its schema differs from the schema of its version. The log has the " +
			"cause. Every acknowledged plant is on stable storage, unless its file was removed. " +
			"Check the disk before you start the server again. `serve` also ends with 74 when another server has [taken over]" +
			"(../explanation/durability.md#one-owner) its backup directory. " +
			"74 is `EX_IOERR` of `sysexits.h`.",
	},
	{
		exitInterrupted, "the command was interrupted",
		"Ctrl-C, SIGTERM or SIGHUP ended it. The plants that it counted are stored. `serve` ends with 0 after Ctrl-C " +
			"and SIGTERM, also while it starts. After SIGHUP it reloads its settings, or ends with 0 if its standard input is " +
			"a terminal. `try` ends with 0 after the first of these signals.",
	},
}

// TestReferenceExitCodes compares docs/reference/exit-codes.md with exitCodes.
func TestReferenceExitCodes(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("# Exit codes\n\n" + wrapped(generatedBy("cmd/plantstore/reference_test.go")))
	for _, c := range exitCodes {
		page.WriteString("\n" + wrapped(fmt.Sprintf("**%d**: %s. %s", c.code, c.meaning, c.more)))
	}
	page.WriteString("\n" + wrapped("A second SIGINT or SIGTERM ends the program at once, as does a signal from a closed "+
		"pipe. The exit code is then 128 plus the number of the signal."))
	checkPage(t, "exit-codes.md", page.String())
}

// TestReferenceCommands compares docs/reference/commands.md with the commands.
func TestReferenceCommands(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("# Commands\n\n" + wrapped("`plantstore COMMAND --help`, and the manual page of each command, "+
		"describe "+
		"it with examples and every flag. [Settings](settings.md), [JSON output](json.md) and [exit codes](exit-codes.md) "+
		"have pages of their own. "+generatedBy("the commands in cmd/plantstore")) + "\n")
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && cmd.HasParent() && !cmd.HasSubCommands() && cmd.Name() != "help" {
			page.WriteString(wrapped("- **" + code(strings.TrimPrefix(cmd.CommandPath(), "plantstore ")) + "**: " +
				cmd.Short + ". " + flagsOf(cmd)))
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(&program{}))
	page.WriteString("\n## Server flags\n\n" + wrapped("With these flags a command works on a "+
		"[running server](../how-to/administer-a-remote-server.md), without access to its store: "+
		strings.Join(flagNames(serverFlags(), nil), ", ")+"."))
	checkPage(t, "commands.md", page.String())
}

// serverFlags returns the flags of a command that works on a running server.
func serverFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	new(program).server.Bind(flags)
	return flags
}

// flagsOf returns the flags of a command. Flags for --server and settings are links.
func flagsOf(cmd *cobra.Command) string {
	settings, server := pflag.NewFlagSet("settings", pflag.ContinueOnError), serverFlags()
	new(config.Settings).BindServe(settings)
	remote := false
	names := flagNames(cmd.LocalFlags(), func(f *pflag.Flag) bool {
		remote = remote || server.Lookup(f.Name) != nil
		return settings.Lookup(f.Name) == nil && server.Lookup(f.Name) == nil
	})
	if remote {
		names = append(names, "[server flags](#server-flags)")
	}
	shared := flagNames(cmd.LocalFlags(), func(f *pflag.Flag) bool { return settings.Lookup(f.Name) != nil })
	if len(shared) == len(flagNames(settings, nil)) {
		shared = []string{"all [settings](settings.md)"}
	}
	names = append(names, shared...)
	if len(names) == 0 {
		return ""
	}
	return "Flags: " + strings.Join(names, ", ") + "."
}

// flagNames returns the selected flags with the unit of their value; nil selects all.
func flagNames(flags *pflag.FlagSet, selected func(*pflag.Flag) bool) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden || selected != nil && !selected(f) {
			return
		}
		unit, _ := pflag.UnquoteUsage(f)
		name := code(strings.TrimSpace("--" + f.Name + " " + unit))
		if f.Shorthand != "" {
			name = code("-"+f.Shorthand) + ", " + name
		}
		names = append(names, name)
	})
	return names
}

// shownDefault returns the default of a flag, or nothing for a zero value.
func shownDefault(f *pflag.Flag) string {
	if slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) {
		return ""
	}
	return strings.Trim(f.DefValue, "[]") // pflag prints a list in brackets
}

// exitCodesOf returns the exit codes of a command. Only commands that open a store can find it broken, and only version
// and completion cannot be interrupted.
func exitCodesOf(cmd *cobra.Command) []int {
	codes := []int{exitOK, exitFailure, exitUsage}
	db := cmd.LocalFlags().Lookup("db")
	if cmd.LocalFlags().Lookup("from") != nil || db != nil && !db.Hidden && cmd.Name() != "config" {
		codes = append(codes, exitIO)
	}
	if cmd.Name() != "version" && cmd.Parent().Name() != "completion" {
		codes = append(codes, exitInterrupted)
	}
	return codes
}
