package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestWithoutEffect shows which settings have no effect: those of a part that the settings do not have.
func TestWithoutEffect(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--webhook-rate=7 --webhook-url=https://plants.example":         "",
		"--webhook-rate=7 --webhook-allow-private --backup-keep=7":      "webhook-allow-private webhook-rate",
		"--acme-email=a@plants.example --oidc-audience=a":               "acme-email oidc-audience",
		"--oidc-issuer=https://a.example --oidc-client-id=b":            "",
		"--oidc-issuer=https://a.example --oidc-console-claim=b":        "oidc-console-claim",
		"--backup-keep=3 --backup-lag=0":                                "backup-keep backup-lag",
		"--insecure-listen --tls-cert=a --tls-key=b --log-format=json":  "insecure-listen",
		"--insecure-listen --listen=0.0.0.0:80 --audit-keep=1d --pprof": "",
	} {
		var s Settings
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.BindServe(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(s.WithoutEffect())), " "); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}

// TestServiceLinks shows that the variables of a Kubernetes Service whose name begins with plantstore are no settings
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
func TestServiceLinks(t *testing.T) {
	t.Parallel()
	const link = `SERVICE_HOST=10.96.0.7
SERVICE_HOST=fd00::7
SERVICE_PORT=8081
SERVICE_PORT_HTTP=8081
SERVICE_PORT_HTTP_ADMIN=8081
PORT=tcp://10.96.0.7:8081
PORT=tcp://[fd00::7]:8081
PORT=udp://10.96.0.7:8081
PORT_8081_TCP=tcp://10.96.0.7:8081
PORT_8081_TCP_PROTO=tcp
PORT_8081_TCP_PORT=8081
PORT_8081_TCP_ADDR=10.96.0.7
PORT_53_UDP=udp://10.96.0.7:53
PORT_53_SCTP_ADDR=10.96.0.7`
	refusal := func(entry string) string {
		if err := checkEnviron(NewEnvironment([]string{entry}).Vars, []string{"admin-listen"}); err != nil {
			return err.Error()
		}
		return ""
	}
	for _, service := range []string{"PLANTSTORE_", "PLANTSTORE_ADMIN_", "PLANTSTORE_0_PORT_SERVICE_"} {
		for entry := range strings.Lines(link) {
			if got := refusal(service + strings.TrimSpace(entry)); got != "" {
				t.Errorf("%s%s: %s", service, entry, got)
			}
		}
	}
	for _, entry := range []string{
		"ADMIN_LISTE=127.0.0.1:8081", "PORT=8080", "ADMIN_PORT=8081", "ADMIN_PORT=127.0.0.1:8081", "ADMIN_PORT=", "PORTS=1",
		"ADMINPORT=tcp://10.96.0.7", "SERVICE=1", "SERVICE_HOSTS=1", "PORT_TCP=tcp://10.96.0.7:80",
		"PORT_80_HTTP_ADDR=10.96.0.7", "PORT_80_TCP=10.96.0.7", "ADMIN_HOSTS=tcp://10.96.0.7:80",
	} {
		name, _, _ := strings.Cut("PLANTSTORE_"+entry, "=")
		if got := refusal("PLANTSTORE_" + entry); !strings.HasPrefix(got, "unknown environment variable "+name) {
			t.Errorf("%s: got %q", entry, got)
		}
	}
	for _, setting := range new(Settings).AllSettings() {
		if serviceLink.MatchString(Variable(setting.Name) + "=tcp://10.96.0.7:80") {
			t.Errorf("%s looks like a link of a Service", Variable(setting.Name))
		}
	}
}
