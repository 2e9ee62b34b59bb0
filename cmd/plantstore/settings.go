package main

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

// settings holds the value in force of every setting.
type settings struct {
	config    text
	configSum [sha256.Size]byte // of the contents of config; set by loadFlags
	db        storeAddress

	listen      address
	adminListen address
	adminHost   list
	baseURL     baseURL
	corsOrigins list

	logFormat choice
	logLevel  choice

	bodyMax        byteCount
	requestTimeout timeout

	backup backupSettings

	requireSyncStandby toggle

	pprof toggle
	audit auditSettings

	connections connectionSettings
	proxies     proxySettings
	rate        rateSettings

	tls  tlsSettings
	acme acmeSettings

	admin adminSettings

	oidc   oidcSettings
	signIn signInSettings

	webhook webhookSettings

	otherPorts bool // of try: a listener uses a free port of 127.0.0.1 if its own is in use

	sources map[string]string // by name: the flag, variable or file that set the value, or "default"
}

// setting is a row of the table of settings. The name is the flag without its dashes and the key of the settings file;
// environName returns the environment variable.
type setting struct {
	name    string
	value   pflag.Value
	initial string // the default, as a flag would set it; empty: the zero value
	since   string // the version that introduced the setting
	usage   string // one line for --help and the table of settings; the word in backquotes is the unit or the form
	more    string // paragraphs for docs/reference/settings.md
}

// storeSettings are the settings of every command that opens a store.
func (s *settings) storeSettings() []setting {
	return []setting{
		{
			"config", &s.config, "", "1.0.0", "YAML `file` with settings",
			"A mapping of keys to values. A list is a YAML list, or its items with commas between them. " +
				"Unknown keys and duplicate keys are errors.",
		},
		{
			"db", &s.db, "plantstore.db", "1.0.0", "the `store`: a file, or the URL of a PostgreSQL database",
			"See [address of a store](configuration.md#address-of-a-store). A password on the command line is an error, " +
				"because every user of the machine can read it: use `PLANTSTORE_DB`, `PGPASSWORD` or `PGPASSFILE`.",
		},
	}
}

// listenerSettings are the settings of the two listeners of a server.
func (s *settings) listenerSettings() []setting {
	return []setting{
		{
			"listen", &s.listen, "127.0.0.1:8080", "1.0.0", "`address` of the public listener",
			"Port 0 selects a free port, and the log line `ready` contains it. An address that is not a loopback address " +
				"requires [TLS](configuration.md#tls) or `--insecure-listen`.",
		},
		{
			"admin-listen", &s.adminListen, "127.0.0.1:8081", "1.0.0",
			"`address` of the admin listener",
			"Keep it on loopback or in an operator's network. See [admin listener](admin-listener.md).",
		},
		{
			"admin-host", s.adminHost.of(checkHost), "", "1.0.0", "accepted `hosts` of requests to the admin listener",
			"Host names and IP addresses without a port. The address of the connection, loopback addresses and " +
				"`localhost` are always accepted.",
		},
		{
			"base-url", &s.baseURL, "", "1.0.0", "`URL` at which clients reach the public listener",
			"An http or https URL, with its path if it has one. The API document contains it. Empty: the program derives " +
				"a URL from `--listen`.",
		},
		{
			"cors-origins", s.corsOrigins.of(checkOrigin), "", "1.0.0", "`origins` whose web pages may create plants, or *",
			"`*` is every origin. Empty: CORS is off.",
		},
		{
			"pprof", &s.pprof, "", "1.0.0", "serve profiles at /debug/pprof/ of the admin listener",
			"See [profiles](admin-listener.md#profiles).",
		},
	}
}

// limitSettings are the limits of a server.
func (s *settings) limitSettings() []setting {
	return []setting{
		{
			"body-max", s.bodyMax.between(1<<10, plant.BodyBytesMax), "64KiB", "1.0.0", "largest request body, in `bytes`",
			"The response to a larger body is 413.",
		},
		{
			"request-timeout", &s.requestTimeout, "10s", "1.0.0", "`time` for a request to arrive",
			"The response to a slower request is 408.",
		},
		{
			"require-sync-standby", &s.requireSyncStandby, "", "1.0.0", "require a synchronous standby of PostgreSQL",
			"The server starts, and acknowledges plants, only while the database waits for a synchronous standby. " +
				"It is an error with a store in a file.",
		},
	}
}

// operatorSettings are the settings of the log of a server.
func (s *settings) operatorSettings() []setting {
	return []setting{
		{"log-format", s.logFormat.among("text", "json"), "text", "1.0.0", "`form` of the log", ""},
		{
			"log-level", s.logLevel.among(logLevelWords()...), "access", "1.0.0", "lowest `level` of the log lines",
			"`info` omits the lines of successful requests. " +
				"See [log lines](logs.md).",
		},
	}
}

// serverSettings are the settings of serve and config.
func (s *settings) serverSettings() []setting {
	return slices.Concat(
		s.listenerSettings(), s.admin.rows(), s.tls.rows(), s.acme.rows(), s.proxies.rows(), s.connections.rows(),
		s.limitSettings(), s.rate.rows(), s.operatorSettings(), s.backup.rows(), s.audit.rows(), s.oidc.rows(),
		s.signIn.rows(), s.webhook.rows(),
	)
}

// allSettings returns the table of settings.
func (s *settings) allSettings() []setting {
	return slices.Concat(s.storeSettings(), s.serverSettings())
}

// bindStore adds the flags of the settings of a command that opens the store.
func (s *settings) bindStore(f *pflag.FlagSet) { bindSettings(f, s.storeSettings()) }

// bindServe adds the flags of the settings of a server.
func (s *settings) bindServe(f *pflag.FlagSet) { bindSettings(f, s.serverSettings()) }

// bindSettings sets the defaults of settings and adds their flags.
func bindSettings(f *pflag.FlagSet, rows []setting) {
	for _, row := range rows {
		if row.initial != "" {
			_ = row.value.Set(row.initial) // TestSettingsTable covers every default
		}
		usage := row.usage
		if c, ok := row.value.(*choice); ok {
			usage += ": " + strings.Join(c.allowed, ", ")
		}
		flag := f.VarPF(row.value, row.name, "", usage)
		if row.value.Type() == boolType {
			flag.NoOptDefVal = "true"
		}
	}
}

// fault returns a usage error about the value of a setting.
func (s *settings) fault(name, format string, args ...any) error {
	return usagef("%s (%s): %w", name, s.sources[name], fmt.Errorf(format, args...))
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

const environPrefix = "PLANTSTORE_"

// tokenVariable has the secret of a token, for --server and token revoke. It, webhookSecretVariable and
// clientSecretVariable are the only variables with the prefix that are no settings.
const tokenVariable = environPrefix + "TOKEN"

// environName returns the environment variable of a setting.
func environName(setting string) string {
	return environPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// load sets every setting without a flag on the command line: from the environment, else from the settings file. Its
// errors are usage errors, except the error of an interrupt.
func (s *settings) load(ctx context.Context, env *environment, flags *pflag.FlagSet) error {
	var names []string
	for _, row := range new(settings).allSettings() {
		names = append(names, row.name)
	}
	if err := checkEnviron(env.vars, names); err != nil {
		return err
	}
	s.sources = map[string]string{}
	if err := s.set(flags, "config", env.vars[environName("config")], environName("config")); err != nil {
		return err
	}
	var file map[string]string
	var err error
	file, s.configSum, err = readConfig(ctx, string(s.config), names)
	if err != nil {
		return err
	}
	env.remember(maps.Values(file))
	for _, name := range names {
		if flags.Lookup(name) == nil || name == "config" {
			continue
		}
		value, source := "", ""
		if text, ok := env.vars[environName(name)]; ok {
			value, source = text, environName(name)
		} else if text, ok := file[name]; ok {
			value, source = text, string(s.config)
		}
		if err := s.set(flags, name, value, source); err != nil {
			return err
		}
	}
	return s.check()
}

// check returns a usage error for settings that contradict each other.
func (s *settings) check() error {
	return cmp.Or(s.tls.check(s), s.acme.check(s), s.backup.check(s))
}

// checkServe returns the usage errors of a server with these settings.
func (s *settings) checkServe(ctx context.Context, env *environment) error {
	return errors.Join(s.checkStore(), s.backup.checkDestination(ctx, env, s), s.proxies.check(s), s.rate.check(s),
		s.oidc.check(s), s.signIn.check(s))
}

// set sets a setting and records its source. A flag takes precedence. An empty source means that neither the
// environment nor the file has a value.
func (s *settings) set(flags *pflag.FlagSet, name, value, source string) error {
	switch {
	case flags.Changed(name):
		s.sources[name] = "--" + name
	case source == "" || value == "" && name == "config":
		s.sources[name] = "default"
	default:
		s.sources[name] = source
		f := flags.Lookup(name)
		if err := f.Value.Set(value); err != nil {
			return s.fault(name, "%w", valueFault(f, value, err))
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
	allowed := []string{tokenVariable, webhookSecretVariable, clientSecretVariable}
	for _, name := range settings {
		allowed = append(allowed, environName(name))
	}
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if strings.HasPrefix(name, environPrefix) && !slices.Contains(allowed, name) && !serviceLink.MatchString(name) {
			return usagef("unknown environment variable %s%s; see plantstore config --help", name, didYouMean(name, allowed))
		}
	}
	return nil
}

// valueFault returns the error of an invalid value of a flag. It replaces the errors of pflag's types, which name
// functions of Go's library.
func valueFault(f *pflag.Flag, value string, err error) error {
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

// changedFlags returns the values of the flags of the command line.
func changedFlags(flags *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	flags.Visit(func(f *pflag.Flag) { values[f.Name] = textOf(f.Value) })
	return values
}

// reloadable are the settings that a running server changes. Every other setting waits for a restart.
var reloadable = []string{
	"log-level",
	"auth-failures", "credential-rate", "credential-burst", "credential-concurrency",
	"webhook-url", "webhook-secret-file", "webhook-allow-private", "webhook-rate", "webhook-give-up",
}

// reloadable reports whether a running server changes the setting. The others wait for a restart.
func (s setting) reloadable() bool { return slices.Contains(reloadable, s.name) }
