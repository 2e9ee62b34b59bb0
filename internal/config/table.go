package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"plantstore/internal/acme"
	"plantstore/internal/backup"
	"plantstore/internal/oidc"
	"plantstore/internal/plant"
)

// Setting is a row of the table of settings. The name is the flag without its dashes and the key of the settings file;
// Variable returns the environment variable. docs/reference/settings.md says more about most of them.
type Setting struct {
	Name    string
	Value   pflag.Value
	Initial string // the default, as a flag would set it; empty: the zero value
	Usage   string // one line for --help and the table of settings; the word in backquotes is the unit or the form
}

const initialStore = "plantstore.db" // in the working directory

// Group is the settings for a task of the operator.
type Group struct {
	Title    string
	Settings []Setting
}

// Groups returns the table of settings: the most common ones first.
func (s *Settings) Groups() []Group {
	return slices.Concat(s.listenerGroups(), s.storeGroups(), s.integrationGroups())
}

func (s *Settings) listenerGroups() []Group {
	return []Group{
		{"Common settings", []Setting{
			{"config", text(&s.Config), "", "YAML `file` with settings"},
			{"db", &s.DB, initialStore, "the `store`: a file, or the URL of a PostgreSQL database"},
			{"listen", checked(&s.Listen, checkAddress), "127.0.0.1:8080", "`address` of the public listener"},
			{"tls-cert", text(&s.TLS.Cert), "", "PEM `file` with the certificate of the listeners and its chain"},
			{"tls-key", text(&s.TLS.Key), "", "PEM `file` with the private key of the certificate"},
			{
				"acme-domain", list(&s.ACME.Domains, acme.CheckDomain), "",
				"`domains` for which the server obtains certificates by ACME",
			},
			{
				"acme-email", checked(&s.ACME.Email, optional(acme.CheckEmail)), "",
				"`address` for messages of the CA; agrees to its terms of service",
			},
			{
				"backup-dir", checked(&s.Backup.Destination, checkDestination), "",
				"`directory` or s3://BUCKET/PREFIX for scheduled backups; empty: no backups",
			},
		}},
		{"Listeners", []Setting{
			{"admin-listen", checked(&s.AdminListen, checkAddress), "127.0.0.1:8081", "`address` of the admin listener"},
			{"admin-host", list(&s.AdminHosts, checkHost), "", "accepted `hosts` of requests to the admin listener"},
			{"base-url", baseURL(&s.BaseURL), "", "`URL` at which clients reach the public listener"},
			{"console-url", baseURL(&s.ConsoleURL), "", "`URL` at which browsers reach the console"},
			{"cors-origins", list(&s.CORSOrigins, checkOrigin), "", "`origins` whose web pages may create plants, or *"},
			{"pprof", toggle(&s.PProf), "", "serve profiles at /debug/pprof/ of the admin listener"},
			{
				"trusted-proxies", list(&s.TrustedProxies, checkPrefix), "",
				"`addresses` of proxies that may name the address of a client",
			},
		}},
		{"TLS", []Setting{
			{"client-ca", text(&s.TLS.ClientCA), "", "PEM `file` with the issuers of client certificates"},
			{
				"insecure-listen", toggle(&s.TLS.InsecureListen), "",
				"allow addresses without TLS that are not loopback addresses",
			},
			{
				"acme-directory", checked(&s.ACME.Directory, optional(acme.CheckDirectory)), acme.LetsEncrypt,
				"`URL` of the ACME directory of the CA",
			},
		}},
	}
}

func (s *Settings) storeGroups() []Group {
	return []Group{
		{"Limits", []Setting{
			{"body-max", byteCount(&s.Limits.BodyMax, 1<<10, plant.BodyBytesMax), "64KiB", "largest request body, in `bytes`"},
			{"request-timeout", Timeout(&s.Limits.RequestTimeout), "10s", "`time` for a request to arrive"},
			{
				"connections-per-address", count(&s.ConnectionsPerAddress, 0), "1000",
				"number of open `connections` of one client address; 0: no limit",
			},
			{"auth-failures", count(&s.Limits.AuthFailures, 0), "30", "`number` of failed credentials per minute and address"},
			{"credential-rate", count(&s.Limits.Rate, 0), "0", "`requests` per second and credential"},
			{"credential-concurrency", count(&s.Limits.Concurrency, 0), "0", "`requests` of a credential at the same time"},
		}},
		{"Durability and backups", []Setting{
			{"require-sync-standby", toggle(&s.RequireSyncStandby), "", "require a synchronous standby of PostgreSQL"},
			{"backup-every", Timeout(&s.Backup.Every), "1d", "`time` between two scheduled backups"},
			{
				"backup-lag", Duration(&s.Backup.Lag), "1s",
				"`time` within which each commit is copied to the backup directory; 0: only with the next backup",
			},
			{"backup-sync", toggle(&s.Backup.Sync), "", "acknowledge a plant when the backup directory has it too"},
			{
				"restore-missing", toggle(&s.Backup.RestoreMissing), "",
				"restore a store that does not exist from the backup directory, before the start",
			},
			{
				"take-over", list(&s.Backup.TakeOver, backup.CheckTimeline), "",
				"take the backup directory over from the servers with these `timelines`",
			},
			{"backup-keep", count(&s.Backup.Keep, 1), "7", "number of scheduled `backups` to keep"},
			{
				"standby", toggle(&s.Backup.Standby), "",
				"follow the server that owns the backup directory, and wait for one",
			},
			{
				"failover", Duration(&s.Backup.Failover), "0",
				"`time` after which a standby takes over from a server that does not renew its ownership; 0: never",
			},
		}},
		{"Log", []Setting{
			{"log-format", Choice(&s.LogFormat, "text", "json"), "text", "`form` of the log"},
			{
				"log-level", Choice(&s.LogLevel, "debug", "access", "info", "warn", "error"), "access",
				"lowest `level` of the log lines",
			},
			{"audit-keep", Duration(&s.AuditKeep), "400d", "`time` to keep an entry of the audit log; 0: always"},
		}},
	}
}

func (s *Settings) integrationGroups() []Group {
	return []Group{
		{"OpenID Connect", []Setting{
			{
				"oidc-issuer", checked(&s.OIDC.Issuer, optional(oidc.CheckIssuer)), "",
				"`URL` of the issuer whose JWTs are accepted; empty: none",
			},
			{"oidc-audience", text(&s.OIDC.Audience), "", "`audience` of the JWTs for this store"},
			{"oidc-scopes", list(&s.scopeGrants, checkScopeGrant), "", "`grants` of scopes, as VALUE=SCOPE"},
			{"oidc-scope-claim", text(&s.OIDC.ScopeClaim), "scope", "`claim` with the values that grant scopes"},
			{"oidc-name-claim", text(&s.OIDC.NameClaim), "sub", "`claim` with the name of the credential in the log"},
			{"oidc-client-id", text(&s.OIDC.ClientID), "", "`id` of the console as a client of the issuer; empty: none"},
			{"oidc-client-secret-file", text(&s.clientSecretFile), "", "`file` with the secret of the client"},
			{
				"oidc-client-scopes", list(&s.SignIn.Scopes, checkRequestedScope), "",
				"`scopes` that the console requests from the issuer",
			},
			{"oidc-console-claim", text(&s.SignIn.Claim), "groups", "`claim` of the ID token that grants access to the console"},
			{"oidc-console-grants", list(&s.consoleGrants, checkConsoleGrant), "", "`grants` of access, as VALUE=SCOPES"},
		}},
		{"Webhooks", []Setting{
			{
				"webhook-url", &List{to: &s.Webhook.URLs, show: hideInURL}, "",
				"`URLs` that receive an event for each created plant; empty: none",
			},
			{SecretFileSetting, text(&s.webhookSecretFile), "", "`file` with the secret that signs the events"},
			{"webhook-allow-private", toggle(&s.Webhook.AllowPrivate), "", "deliver also to private addresses and over http"},
			{"webhook-rate", count(&s.Webhook.Rate, 1), "500", "number of `attempts` a second, to all URLs"},
		}},
		{"Warnings", []Setting{
			{
				heartbeatSetting, urlWithSecret(&s.HeartbeatURL), "",
				"`URL` that is called every 5 minutes while all is well; empty: none",
			},
			{warningSetting, urlWithSecret(&s.WarningURL), "", "`URL` that receives warnings that start or end; empty: none"},
		}},
	}
}

// reloadable are the settings that a running server changes. Every other setting waits for a restart.
var reloadable = []string{
	"log-level",
	"auth-failures", "credential-rate", "credential-concurrency",
	"webhook-url", "webhook-secret-file", "webhook-allow-private", "webhook-rate", heartbeatSetting, warningSetting,
}

// Reloadable reports whether a running server changes the setting. The others wait for a restart.
func (s Setting) Reloadable() bool { return slices.Contains(reloadable, s.Name) }

// isSet reports whether the setting has a value that is neither the default nor empty.
func (s Setting) isSet() bool {
	value := s.Value.String()
	return value != s.Initial && value != "" && (value != "false" || s.Value.Type() != boolType)
}

// AllSettings returns the settings of all groups.
func (s *Settings) AllSettings() (all []Setting) {
	for _, g := range s.Groups() {
		all = append(all, g.Settings...)
	}
	return all
}

// Bind sets the defaults of some settings, or of all without names, and adds their flags.
func (s *Settings) Bind(f *pflag.FlagSet, names ...string) {
	for _, row := range s.AllSettings() {
		if len(names) == 0 || slices.Contains(names, row.Name) {
			row.bind(f)
		}
	}
}

// BindStore sets the defaults of the settings of a command that opens the store, and adds their flags.
func (s *Settings) BindStore(f *pflag.FlagSet) { s.Bind(f, "config", "db") }

// BindServe sets the defaults of all settings and adds their flags.
func (s *Settings) BindServe(f *pflag.FlagSet) { s.Bind(f) }

func (s Setting) bind(f *pflag.FlagSet) {
	if s.Initial != "" {
		_ = s.Value.Set(s.Initial) // TestSettingsTable covers every default
	}
	usage := s.Usage
	if words := WordsOf(s.Value); words != nil {
		usage += ": " + strings.Join(words, ", ")
	}
	flag := f.VarPF(s.Value, s.Name, "", usage)
	if s.Value.Type() == boolType {
		flag.NoOptDefVal = "true"
	}
}

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
	var others []string
	f.VisitAll(func(flag *pflag.Flag) { others = append(others, flag.Name) })
	for _, g := range s.Groups() {
		var names []string
		for _, row := range g.Settings {
			names = append(names, row.Name)
		}
		others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(names, name) })
		write(g.Title, names)
	}
	write("Other flags", others)
	return strings.TrimPrefix(text.String(), "\n")
}
