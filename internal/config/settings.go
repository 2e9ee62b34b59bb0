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
	"time"

	"github.com/spf13/pflag"

	"plantstore/internal/acme"
	"plantstore/internal/backup"
	"plantstore/internal/oidc"
	"plantstore/internal/server"
	"plantstore/internal/webhook"
)

// Settings holds the value in force of every setting.
type Settings struct {
	Config  string
	FileSum [sha256.Size]byte // hash of the contents of Config; set by Load
	DB      StoreAddress

	Listen      string
	AdminListen string
	AdminHosts  []string
	BaseURL     *url.URL // nil: none
	CORSOrigins []string

	LogFormat string
	LogLevel  string
	AuditKeep time.Duration

	Limits server.Limits

	Backup backup.Config

	RequireSyncStandby bool
	PProf              bool

	TrustedProxies        []string
	ConnectionsPerAddress int

	TLS  TLS
	ACME acme.Config

	ConsoleURL *url.URL // nil: none
	OIDC       oidc.Config
	SignIn     oidc.ClientConfig
	Webhook    webhook.Config

	HeartbeatURL, WarningURL string // see notify.Config

	// CheckServe parses and reads these into the fields above.
	scopeGrants, consoleGrants          []string
	clientSecretFile, webhookSecretFile string

	OtherPorts bool // set by try: a listener uses a free port of 127.0.0.1 if its own is in use

	Sources map[string]string // by name: the flag, variable or file that set the value, or Default
}

// Default is the source of a setting with its default value.
const Default = "default"

// Fault returns a usage error about the value of a setting.
func (s *Settings) Fault(name, format string, args ...any) error {
	return Usagef("%s (%s): %w", name, s.Sources[name], fmt.Errorf(format, args...))
}

// WithoutEffect returns the settings that are set and have no effect, each with what would give it one.
func (s *Settings) WithoutEffect() map[string]string {
	none := map[string]string{}
	for _, rule := range []struct {
		applies        bool
		prefix, remedy string
	}{
		{!s.HasACME(), "acme-", "set acme-domain"},
		{s.OIDC.ClientID == "", "oidc-client-", "set oidc-client-id"},
		{s.OIDC.ClientID == "", "oidc-console-", "set oidc-client-id"},
		{s.OIDC.Audience == "", "oidc-scope", "set oidc-audience"},
		{s.OIDC.Issuer == "", "oidc-", "set oidc-issuer"},
		{!s.hasReceivers(), "webhook-", "set webhook-url"},
		{s.Backup.Destination == "", "backup-", "set backup-dir"},
		{s.TLS.Cert != "" || s.HasACME(), "insecure-listen", "remove it: the listeners have TLS"},
	} {
		for _, row := range s.AllSettings() {
			if rule.applies && row.isSet() && strings.HasPrefix(row.Name, rule.prefix) {
				none[row.Name] = rule.remedy
			}
		}
	}
	return none
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
// errors are usage errors, except the error of an interrupt. If only some settings are wrong, the others are loaded.
func (s *Settings) Load(ctx context.Context, env *Environment, flags *pflag.FlagSet) error {
	var names []string
	for _, row := range new(Settings).AllSettings() {
		names = append(names, row.Name)
	}
	faults := checkEnviron(env.Vars, names)
	s.Sources = map[string]string{}
	_ = s.set(flags, "config", env.Vars[Variable("config")], Variable("config")) // every text is a file name
	file, err := s.readFile(ctx, names)
	if s.useDefaultFile(env, flags) {
		file, err = s.readDefaultFile(ctx, names)
	}
	if file == nil && err != nil {
		return errors.Join(faults, err)
	}
	faults = errors.Join(faults, err)
	env.remember(maps.Values(file))
	for _, name := range names {
		if flags.Lookup(name) == nil || name == "config" {
			continue
		}
		value, source := "", ""
		if text, ok := env.Vars[Variable(name)]; ok {
			value, source = text, Variable(name)
		} else if text, ok := file[name]; ok {
			value, source = text, s.Config
		}
		faults = errors.Join(faults, s.set(flags, name, value, source))
	}
	return cmp.Or(faults, s.Check())
}

// Check returns the usage errors of settings that contradict each other.
func (s *Settings) Check() error {
	return errors.Join(s.TLS.check(s), s.checkACME(), s.checkBackup())
}

// CheckServe returns the usage errors of a server with these settings. It reads the files with secrets.
func (s *Settings) CheckServe(ctx context.Context, env *Environment) error {
	return errors.Join(s.CheckStore(), s.CheckDestination(ctx, env),
		s.checkIssuer(), s.checkSignIn(), s.CheckReload(env), s.readClientSecret(env))
}

// CheckReload returns the usage errors of the settings that a running server changes. It reads the secrets of webhooks.
func (s *Settings) CheckReload(env *Environment) error {
	return s.checkWebhook(env)
}

// set sets a setting and records its source. A flag takes precedence. An empty source means that neither the
// environment nor the file has a value.
func (s *Settings) set(flags *pflag.FlagSet, name, value, source string) error {
	switch {
	case flags.Changed(name):
		s.Sources[name] = "--" + name
	case source == "" || value == "" && name == "config":
		s.Sources[name] = Default
	default:
		s.Sources[name] = source
		f := flags.Lookup(name)
		if err := f.Value.Set(value); err != nil {
			return s.Fault(name, "%w", ValueFault(f, value, err))
		}
	}
	return nil
}

// serviceLink matches the variables that Kubernetes sets in every container of a namespace with a Service whose name
// begins with plantstore (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
var serviceLink = regexp.MustCompile(`^PLANTSTORE_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)=|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.+:[0-9]+$|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

// checkEnviron refuses unknown variables with the prefix of the program: they are mistyped settings.
func checkEnviron(environ map[string]string, settings []string) (faults error) {
	allowed := []string{TokenVariable, WebhookSecretVariable, ClientSecretVariable}
	for _, name := range settings {
		allowed = append(allowed, Variable(name))
	}
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if strings.HasPrefix(name, VariablePrefix) && !slices.Contains(allowed, name) &&
			!serviceLink.MatchString(name+"="+environ[name]) {
			faults = errors.Join(faults, Usagef("unknown environment variable %s%s; see plantstore config --help",
				name, DidYouMean(name, allowed)))
		}
	}
	return faults
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
