// Package config loads the settings of the program from flags, environment variables and the settings file, and checks
// them. It opens nothing: package serve does.
package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// Settings holds the value in force of every setting.
type Settings struct {
	Config  Text
	FileSum [sha256.Size]byte // of the contents of config; set by loadFlags
	DB      StoreAddress

	Listen      Address
	AdminListen Address
	AdminHost   List
	BaseURL     BaseURL
	CORSOrigins List

	LogFormat Choice
	LogLevel  Choice

	BodyMax        ByteCount
	RequestTimeout Timeout

	Backup Backup

	RequireSyncStandby Toggle

	PProf Toggle
	Audit Audit

	Connections Connections
	Proxies     Proxies
	Rate        Rate

	TLS  TLS
	ACME ACME

	Admin Admin

	OIDC   OIDC
	SignIn SignIn

	Webhook Webhook

	OtherPorts bool // of try: a listener uses a free port of 127.0.0.1 if its own is in use

	Sources map[string]string // by name: the flag, variable or file that set the value, or "default"
}

// Setting is a row of the table of settings. The name is the flag without its dashes and the key of the settings file;
// Variable returns the environment variable.
type Setting struct {
	Name    string
	Value   pflag.Value
	Initial string // the default, as a flag would set it; empty: the zero value
	Usage   string // one line for --help and the table of settings; the word in backquotes is the unit or the form
	More    string // paragraphs for docs/reference/settings.md
}

// listenerSettings are the settings of the two listeners of a server.
func (s *Settings) listenerSettings() []Setting {
	return []Setting{
		{
			"listen", &s.Listen, "127.0.0.1:8080", "`address` of the public listener",
			"Port 0 selects a free port, and the log line `ready` contains it. An address that is not a loopback address " +
				"requires [TLS](configuration.md#tls) or `--insecure-listen`.",
		},
		{
			"admin-listen", &s.AdminListen, "127.0.0.1:8081",
			"`address` of the admin listener",
			"Keep it on loopback or in an operator's network. See [admin listener](admin-listener.md).",
		},
		{
			"admin-host", s.AdminHost.of(checkHost), "", "accepted `hosts` of requests to the admin listener",
			"Host names and IP addresses without a port. The address of the connection, loopback addresses and " +
				"`localhost` are always accepted.",
		},
		{
			"base-url", &s.BaseURL, "", "`URL` at which clients reach the public listener",
			"An http or https URL, with its path if it has one. The API document contains it. Empty: the program derives " +
				"a URL from `--listen`.",
		},
		{
			"console-url", &s.SignIn.ConsoleURL, "", "`URL` at which browsers reach the console",
			"An http or https URL without a path. The links of `plantstore console` and the redirect URL for the issuer have " +
				"it, and its host is accepted as with `--admin-host`. With https the cookies are `Secure`, also behind a proxy " +
				"with the certificate. Empty: the program derives a URL from `--admin-listen`.",
		},
		{
			"cors-origins", s.CORSOrigins.of(checkOrigin), "", "`origins` whose web pages may create plants, or *",
			"`*` is every origin. Empty: CORS is off.",
		},
		{
			"pprof", &s.PProf, "", "serve profiles at /debug/pprof/ of the admin listener",
			"See [profiles](admin-listener.md#profiles).",
		},
	}
}

// limitSettings are the limits of a server.
func (s *Settings) limitSettings() []Setting {
	return []Setting{
		{
			"body-max", s.BodyMax.between(1<<10, plant.BodyBytesMax), "64KiB", "largest request body, in `bytes`",
			"The response to a larger body is 413.",
		},
		{
			"request-timeout", &s.RequestTimeout, "10s", "`time` for a request to arrive",
			"The response to a slower request is 408.",
		},
	}
}

// Group is the settings for a task of the operator.
type Group struct {
	Title    string
	Settings []Setting
}

// common are the settings that most operators set.
var common = []string{"config", "db", "listen", "tls-cert", "tls-key", "acme-domain", "acme-email", "backup-dir"}

// Groups returns all settings, the most common ones first.
func (s *Settings) Groups() []Group {
	first := Group{Title: "Common settings", Settings: s.storeSettings()}
	groups := []Group{
		{"Listeners", slices.Concat(s.listenerSettings(), s.Admin.rows(), s.Proxies.rows())},
		{"TLS", slices.Concat(s.TLS.rows(), s.ACME.rows())},
		{"Limits", slices.Concat(s.limitSettings(), s.Connections.rows(), s.Rate.rows())},
		{"Durability and backups", slices.Concat(s.standbySettings(), s.Backup.rows())},
		{"Log", slices.Concat(s.logSettings(), s.Audit.rows())},
		{"OpenID Connect", slices.Concat(s.OIDC.rows(), s.SignIn.clientRows())},
		{"Webhooks", s.Webhook.rows()},
	}
	for i, g := range groups {
		for _, row := range g.Settings {
			if slices.Contains(common, row.Name) {
				first.Settings = append(first.Settings, row)
			}
		}
		groups[i].Settings = slices.DeleteFunc(g.Settings, func(row Setting) bool {
			return slices.Contains(common, row.Name)
		})
	}
	return slices.Insert(groups, 0, first)
}

// AllSettings returns the settings of all groups.
func (s *Settings) AllSettings() (all []Setting) {
	for _, g := range s.Groups() {
		all = append(all, g.Settings...)
	}
	return all
}

// BindStore adds the flags of the settings of a command that opens the store.
func (s *Settings) BindStore(f *pflag.FlagSet) { BindSettings(f, s.storeSettings()) }

// BindServe adds the flags of all settings.
func (s *Settings) BindServe(f *pflag.FlagSet) { BindSettings(f, s.AllSettings()) }

// Usages returns the help of flags: the settings by group, then the other flags.
func (s *Settings) Usages(f *pflag.FlagSet) string {
	var text strings.Builder
	write := func(title string, names []string) {
		group := pflag.NewFlagSet(title, pflag.ContinueOnError)
		group.SortFlags = false
		for _, name := range names {
			group.AddFlag(f.Lookup(name))
		}
		if group.HasAvailableFlags() {
			text.WriteString("\n" + title + ":\n" + group.FlagUsages())
		}
	}
	grouped := map[string]bool{}
	for _, g := range s.Groups() {
		var names []string
		for _, row := range g.Settings {
			grouped[row.Name] = true
			names = append(names, row.Name)
		}
		write(g.Title, names)
	}
	var others []string
	f.VisitAll(func(flag *pflag.Flag) {
		if !grouped[flag.Name] {
			others = append(others, flag.Name)
		}
	})
	write("Other flags", others)
	return strings.TrimPrefix(text.String(), "\n")
}

// BindSettings sets the defaults of settings and adds their flags.
func BindSettings(f *pflag.FlagSet, rows []Setting) {
	for _, row := range rows {
		if row.Initial != "" {
			_ = row.Value.Set(row.Initial) // TestSettingsTable covers every default
		}
		usage := row.Usage
		if c, ok := row.Value.(*Choice); ok {
			usage += ": " + strings.Join(c.Allowed, ", ")
		}
		flag := f.VarPF(row.Value, row.Name, "", usage)
		if row.Value.Type() == boolType {
			flag.NoOptDefVal = "true"
		}
	}
}

// Fault returns a usage error about the value of a setting.
func (s *Settings) Fault(name, format string, args ...any) error {
	return Usagef("%s (%s): %w", name, s.Sources[name], fmt.Errorf(format, args...))
}

func checkOrigin(origin string) error {
	if origin == "*" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || origin != strings.ToLower(u.Scheme+"://"+u.Host) {
		return fmt.Errorf("%q is not an origin; use the form https://nursery.example, in lower case and without a path",
			origin)
	}
	return nil
}

func checkHost(host string) error {
	_, err := server.ParseHost(host)
	return err
}

// VariablePrefix is the start of the name of each environment variable of the program.
const VariablePrefix = "PLANTSTORE_"

// TokenVariable has the secret of a token, for --server and token revoke. It, webhookSecretVariable and
// clientSecretVariable are the only variables with the prefix that are not settings.
const TokenVariable = VariablePrefix + "TOKEN"

// Variable returns the environment variable of a setting.
func Variable(setting string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// Load sets every setting without a flag on the command line: from the environment, else from the settings file. Its
// errors are usage errors, except the error of an interrupt.
func (s *Settings) Load(ctx context.Context, env *Environment, flags *pflag.FlagSet) error {
	var names []string
	for _, row := range new(Settings).AllSettings() {
		names = append(names, row.Name)
	}
	if err := checkEnviron(env.Vars, names); err != nil {
		return err
	}
	s.Sources = map[string]string{}
	if err := s.set(flags, "config", env.Vars[Variable("config")], Variable("config")); err != nil {
		return err
	}
	var file map[string]string
	var err error
	file, s.FileSum, err = readConfig(ctx, string(s.Config), names)
	if err != nil {
		return err
	}
	env.remember(maps.Values(file))
	for _, name := range names {
		if flags.Lookup(name) == nil || name == "config" {
			continue
		}
		value, source := "", ""
		if text, ok := env.Vars[Variable(name)]; ok {
			value, source = text, Variable(name)
		} else if text, ok := file[name]; ok {
			value, source = text, string(s.Config)
		}
		if err := s.set(flags, name, value, source); err != nil {
			return err
		}
	}
	return s.Check()
}

// Check returns a usage error for settings that contradict each other.
func (s *Settings) Check() error {
	return cmp.Or(s.TLS.check(s), s.ACME.check(s), s.Backup.check(s))
}

// CheckServe returns the usage errors of a server with these settings.
func (s *Settings) CheckServe(ctx context.Context, env *Environment) error {
	return errors.Join(s.CheckStore(), s.Backup.checkDestination(ctx, env, s), s.Proxies.check(s), s.Rate.check(s),
		s.OIDC.check(s), s.SignIn.check(s))
}

// set sets a setting and records its source. A flag takes precedence. An empty source means that neither the
// environment nor the file has a value.
func (s *Settings) set(flags *pflag.FlagSet, name, value, source string) error {
	switch {
	case flags.Changed(name):
		s.Sources[name] = "--" + name
	case source == "" || value == "" && name == "config":
		s.Sources[name] = "default"
	default:
		s.Sources[name] = source
		f := flags.Lookup(name)
		if err := f.Value.Set(value); err != nil {
			return s.Fault(name, "%w", ValueFault(f, value, err))
		}
	}
	return nil
}

// serviceLink matches the variables that Kubernetes sets in every container of a namespace with a Service named
// plantstore.
var serviceLink = regexp.MustCompile(
	`^PLANTSTORE_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkEnviron refuses an unknown variable with the prefix of the program: it is a mistyped setting.
func checkEnviron(environ map[string]string, settings []string) error {
	allowed := []string{TokenVariable, WebhookSecretVariable, ClientSecretVariable}
	for _, name := range settings {
		allowed = append(allowed, Variable(name))
	}
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if strings.HasPrefix(name, VariablePrefix) && !slices.Contains(allowed, name) && !serviceLink.MatchString(name) {
			return Usagef("unknown environment variable %s%s; see plantstore config --help", name, DidYouMean(name, allowed))
		}
	}
	return nil
}

// ValueFault returns the error of an invalid value of a flag. It replaces the errors of pflag's types, which name
// functions of Go's library.
func ValueFault(f *pflag.Flag, value string, err error) error {
	var number *strconv.NumError
	switch {
	case f.Value.Type() == boolType:
		return fmt.Errorf("%q is not a boolean; use true or false", value)
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is out of range", value)
	case errors.As(err, &number):
		return fmt.Errorf("%q is not a whole number", value)
	}
	return err
}

// ChangedFlags returns the values of the flags of the command line.
func ChangedFlags(flags *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	flags.Visit(func(f *pflag.Flag) { values[f.Name] = TextOf(f.Value) })
	return values
}

// reloadable are the settings that a running server changes. Every other setting waits for a restart.
var reloadable = []string{
	"log-level",
	"auth-failures", "credential-rate", "credential-burst", "credential-concurrency",
	"webhook-url", "webhook-secret-file", "webhook-allow-private", "webhook-rate", "webhook-give-up",
}

// Reloadable reports whether a running server changes the setting. The others wait for a restart.
func (s Setting) Reloadable() bool { return slices.Contains(reloadable, s.Name) }
