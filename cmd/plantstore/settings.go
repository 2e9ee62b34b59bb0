package main

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
)

// settings is every setting of the program, with the value in force.
type settings struct {
	config string
	db     storeAddress

	listen      address
	adminListen address
	adminHosts  []string
	baseURL     baseURL
	corsOrigins []string

	logFormat choice
	logLevel  choice

	bodyMax        byteCount
	headerMax      byteCount
	requestTimeout time.Duration
	answerTimeout  time.Duration
	idleTimeout    time.Duration
	queueMax       int
	walMax         byteCount
	backupDir      string
	backupEvery    time.Duration
	backupKeep     int

	requireSyncStandby bool

	pprof bool

	sources map[string]string // where each setting's value came from, by name
}

// bindStore adds the settings of every command that opens the store.
func (s *settings) bindStore(f *pflag.FlagSet) {
	f.StringVar(&s.config, "config", "", "read settings from this YAML `file`")
	s.db = storeAddress{path: "plantstore.db"}
	f.Var(&s.db, "db", "the store: a `file`, or the URL of a PostgreSQL database, postgres://…")
}

// bindServe adds the settings of the server.
func (s *settings) bindServe(f *pflag.FlagSet) {
	s.listen, s.adminListen = "127.0.0.1:8080", "127.0.0.1:8081"
	s.logFormat = choice{value: "text", allowed: []string{"text", "json"}}
	s.logLevel = choice{value: "access", allowed: logLevelWords()}
	s.bodyMax, s.headerMax = byteCount{n: 64 << 10, min: 1 << 10, max: plant.BodyBytesMax}, byteCount{n: 16 << 10, min: 8 << 10, max: 1 << 20}
	s.requestTimeout, s.answerTimeout, s.idleTimeout, s.backupEvery = 10*time.Second, 20*time.Second, 2*time.Minute, day
	s.walMax = byteCount{n: sqlite.WALBytesDefault, min: sqlite.WALBytesMin, max: 1 << 40}

	f.Var(&s.listen, "listen", "`address` of the public door; port 0 takes a free one")
	f.Var(&s.adminListen, "admin-listen", "`address` of the admin door, which has no authentication: keep it to this machine")
	f.StringSliceVar(&s.adminHosts, "admin-host", nil, "`names` or addresses that requests to the admin listener may have as Host, besides its own address and localhost")
	f.Var(&s.baseURL, "base-url", "`URL` at which clients reach the public door, its path included; stands in the API document")
	f.StringSliceVar(&s.corsOrigins, "cors-origins", nil, "`origins` whose web pages may create plants, or *; none: CORS is off")
	f.Var(&s.logFormat, "log-format", "`form` of the log: text or json")
	f.Var(&s.logLevel, "log-level", "least `level` of the log: debug, access, info, warn or error; info leaves out requests that succeeded")
	f.Var(&s.bodyMax, "body-max", "largest body of a request, in `bytes`")
	f.Var(&s.headerMax, "header-max", "largest line and headers of a request, in `bytes`")
	f.Var((*duration)(&s.requestTimeout), "request-timeout", "`time` for a request to arrive whole")
	f.Var((*duration)(&s.answerTimeout), "answer-timeout", "`time` for the store to answer after that")
	f.Var((*duration)(&s.idleTimeout), "idle-timeout", "`time` for which a connection is kept between requests")
	f.IntVar(&s.queueMax, "queue-max", 8192, "`plants` that may wait for the next commit; more are answered 503")
	f.StringVar(&s.backupDir, "backup-dir", "", "make backups into this `directory`, on another disk than the store's; none: make none")
	f.Var((*duration)(&s.backupEvery), "backup-every", "`time` between two backups")
	f.IntVar(&s.backupKeep, "backup-keep", 7, "how many `backups` are kept; older ones are removed")
	f.BoolVar(&s.requireSyncStandby, "require-sync-standby", false, "start, and acknowledge plants, only while the PostgreSQL database waits for a synchronous standby")
	f.BoolVar(&s.pprof, "pprof", false, "serve profiles of the running program at /debug/pprof/ of the admin door")
	f.Var(&s.walMax, "wal-max", "bound of the store's write-ahead log, in `bytes`")
}

// check refuses values that each setting's own form allows.
func (s *settings) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"request-timeout", s.requestTimeout},
		{"answer-timeout", s.answerTimeout},
		{"idle-timeout", s.idleTimeout},
		{"backup-every", s.backupEvery},
	} {
		if d.value <= 0 {
			return usagef("%s (%s): it must be longer than 0: give a duration like 10s", d.name, s.sources[d.name])
		}
	}
	const queueLimit = 1 << 20
	if s.queueMax < 1 || s.queueMax > queueLimit {
		return usagef("queue-max (%s): %d is out of range: from 1 to %d", s.sources["queue-max"], s.queueMax, queueLimit)
	}
	if s.backupDir != "" && s.db.isDatabase() {
		return usagef("backup-dir (%s): the server makes backups of a store in a file only: use PostgreSQL's own tools", s.sources["backup-dir"])
	}
	if s.backupKeep < 1 {
		return usagef("backup-keep (%s): %d is none: keep at least 1", s.sources["backup-keep"], s.backupKeep)
	}
	for _, origin := range s.corsOrigins {
		if err := checkOrigin(origin); err != nil {
			return usagef("cors-origins (%s): %w", s.sources["cors-origins"], err)
		}
	}
	for _, host := range s.adminHosts {
		if _, err := server.ParseHost(host); err != nil {
			return usagef("admin-host (%s): %w", s.sources["admin-host"], err)
		}
	}
	return nil
}

func checkOrigin(origin string) error {
	if origin == "*" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || origin != strings.ToLower(u.Scheme+"://"+u.Host) {
		return fmt.Errorf("%q is no origin: give one like https://nursery.example, in lower case and without a path", origin)
	}
	return nil
}

const environPrefix = "PLANTSTORE_"

// environOnly are the variables that are not settings.
var environOnly = []string{"PLANTSTORE_TOKEN"}

func environName(setting string) string {
	return environPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// load fills in the settings of a command that no flag set, from the
// environment, then from the file. Every error is a usage error.
func (s *settings) load(p *program, cmd *cobra.Command) error {
	known := pflag.NewFlagSet("known", pflag.ContinueOnError)
	all := &settings{}
	all.bindStore(known)
	all.bindServe(known)

	if err := checkEnviron(p.environ, known); err != nil {
		return err
	}
	s.sources = map[string]string{}
	if err := s.set(cmd.Flags(), "config", p.environ[environName("config")], environName("config")); err != nil {
		return err
	}
	file, err := readConfig(cmd.Context(), s.config, known)
	if err != nil {
		return err
	}
	p.values = slices.AppendSeq(p.values, maps.Values(file))
	known.VisitAll(func(f *pflag.Flag) {
		if err != nil || cmd.Flags().Lookup(f.Name) == nil || f.Name == "config" {
			return
		}
		if value, ok := p.environ[environName(f.Name)]; ok {
			err = s.set(cmd.Flags(), f.Name, value, environName(f.Name))
		} else if value, ok := file[f.Name]; ok {
			err = s.set(cmd.Flags(), f.Name, value, s.config)
		} else {
			err = s.set(cmd.Flags(), f.Name, "", "")
		}
	})
	if err != nil || cmd.Flags().Lookup("listen") == nil {
		return err
	}
	return s.check()
}

// set gives a setting a value, unless a flag did, and notes where it came from.
// No source means that there is no value.
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
			return usagef("%s (%s): %w", name, source, valueFault(f, value, err))
		}
	}
	return nil
}

// serviceLink matches the variables that Kubernetes sets in every container
// near a Service named plantstore.
var serviceLink = regexp.MustCompile(`^PLANTSTORE_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkEnviron refuses a variable with our prefix that is nothing of ours: it
// is a setting misspelt.
func checkEnviron(environ map[string]string, known *pflag.FlagSet) error {
	allowed := slices.Clone(environOnly)
	known.VisitAll(func(f *pflag.Flag) { allowed = append(allowed, environName(f.Name)) })
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if strings.HasPrefix(name, environPrefix) && !slices.Contains(allowed, name) && !serviceLink.MatchString(name) {
			return usagef("the environment variable %s is no setting%s; see plantstore config --help", name, didYouMean(name, allowed))
		}
	}
	return nil
}
