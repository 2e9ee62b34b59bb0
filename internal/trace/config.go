package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"
)

// Config configures a Tracer. The exporter and the SDK read the other variables of OpenTelemetry from the environment
// of the process.
type Config struct {
	Endpoint *url.URL // of the collector, with the path of traces; http or https, without a user and a query
	Sampler  sdk.Sampler
	Version  string // of the program

	exposed bool // headers, which have secrets, cross a network in clear text
}

// Variables that have one form for all signals and one for traces.
const (
	otlpPrefix       = "OTEL_EXPORTER_OTLP_"
	endpointVariable = otlpPrefix + "ENDPOINT"
	headersVariable  = otlpPrefix + "HEADERS"

	tracesEndpointVariable = otlpPrefix + "TRACES_ENDPOINT"
	tracesHeadersVariable  = otlpPrefix + "TRACES_HEADERS"
)

// environment has the variables of the process. An empty value counts as none, as the specification of OpenTelemetry
// requires.
type environment map[string]string

// otlp returns the value and the name of a variable of OTLP, in the form for traces if it is set.
func (e environment) otlp(name string) (value, from string) {
	forTraces := strings.Replace(name, otlpPrefix, otlpPrefix+"TRACES_", 1)
	if value := e[forTraces]; value != "" {
		return value, forTraces
	}
	return e[name], name
}

// FromEnvironment returns the configuration in the OTEL_… variables, or nil if tracing is off: it is on if an endpoint
// is set or OTEL_TRACES_EXPORTER is otlp. An error names the variable, and omits a value that may be a secret.
func FromEnvironment(variables map[string]string, version string) (*Config, error) {
	e := environment(variables)
	on, err := e.enabled()
	if err != nil || !on {
		return nil, err
	}
	endpoint, err1 := e.endpoint()
	sampler, err2 := e.sampler()
	err = errors.Join(err1, err2, e.checkNumber("OTEL_BSP_MAX_QUEUE_SIZE", 1<<20),
		e.checkNumber("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1<<14), e.checkNumber("OTEL_BSP_SCHEDULE_DELAY", 60_000),
		e.protocol(), e.checkHeaders(), e.checkFiles())
	if err != nil {
		return nil, err
	}
	headers, _ := e.otlp(headersVariable)
	ip := net.ParseIP(endpoint.Hostname())
	local := strings.EqualFold(endpoint.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
	return &Config{
		Endpoint: endpoint, Sampler: sampler, Version: version,
		exposed: headers != "" && endpoint.Scheme == "http" && !local,
	}, nil
}

// checkNumber checks a variable of the batch processor, which accepts any number and could panic.
func (e environment) checkNumber(name string, most int) error {
	n, err := strconv.Atoi(e[name])
	if e[name] != "" && (err != nil || n < 1 || n > most) {
		return fmt.Errorf("%s must be a number from 1 to %d; got %q", name, most, e[name])
	}
	return nil
}

func (e environment) enabled() (bool, error) {
	disabled := strings.ToLower(e["OTEL_SDK_DISABLED"])
	if disabled != "" && disabled != "true" && disabled != "false" {
		return false, fmt.Errorf("OTEL_SDK_DISABLED must be true or false; got %q", e["OTEL_SDK_DISABLED"])
	}
	endpoint, _ := e.otlp(endpointVariable)
	switch exporter := strings.ToLower(e["OTEL_TRACES_EXPORTER"]); exporter {
	case "", "otlp":
		return disabled != "true" && (endpoint != "" || exporter != ""), nil
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER must be otlp or none; got %q", e["OTEL_TRACES_EXPORTER"])
	}
}

// endpoint returns the endpoint for traces as it is, or the general one with the path of traces. It checks both,
// because the exporter reads both and logs an invalid one, which may have a password.
func (e environment) endpoint() (*url.URL, error) {
	general, err := parseEndpoint(endpointVariable, cmp.Or(e[endpointVariable], "http://localhost:4318"))
	if err != nil || e[tracesEndpointVariable] == "" {
		return general.JoinPath("v1/traces"), err
	}
	u, err := parseEndpoint(tracesEndpointVariable, e[tracesEndpointVariable])
	u.Path = cmp.Or(u.Path, "/")
	return u, err
}

// parseEndpoint returns an error without the value, and never a nil URL.
func parseEndpoint(name, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return &url.URL{}, errors.New(name + " must be an http or https URL, such as http://localhost:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return u, errors.New(name + " must have no user, no query and no fragment; use " + headersVariable)
	}
	return u, nil
}

// checkHeaders refuses headers that the exporter would log with their values, which are secrets. It reads both forms.
func (e environment) checkHeaders() error {
	for _, from := range []string{tracesHeadersVariable, headersVariable} {
		for i, item := range strings.Split(e[from], ",") {
			name, value, ok := strings.Cut(item, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value))
			valid := ok && err == nil && httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) &&
				httpguts.ValidHeaderFieldValue(value)
			if !valid && strings.TrimSpace(item) != "" {
				return fmt.Errorf("%s: item %d is not a header; use the form name=value, with commas and other special "+
					"characters of the value percent-encoded", from, i+1)
			}
		}
	}
	return nil
}

// checkFiles reads the certificates and the key. The exporter goes on without a file that it cannot read, and would
// send the headers to a collector that these authorities do not know.
func (e environment) checkFiles() error {
	if file, from := e.otlp(otlpPrefix + "CERTIFICATE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: %s has no certificate in PEM", from, file)
		}
	}
	certificate, from := e.otlp(otlpPrefix + "CLIENT_CERTIFICATE")
	key, keyFrom := e.otlp(otlpPrefix + "CLIENT_KEY")
	if certificate == "" && key == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
		return fmt.Errorf("%s and %s: %w", from, keyFrom, err)
	}
	return nil
}

func (e environment) protocol() error {
	if text, from := e.otlp("OTEL_EXPORTER_OTLP_PROTOCOL"); text != "" && text != "http/protobuf" {
		return fmt.Errorf("%s must be http/protobuf, which collectors accept at port 4318; got %q", from, text)
	}
	return nil
}

// sampler returns the sampler of the requests.
func (e environment) sampler() (sdk.Sampler, error) {
	ratio := 1.0
	if text := e["OTEL_TRACES_SAMPLER_ARG"]; text != "" {
		var err error
		if ratio, err = strconv.ParseFloat(text, 64); err != nil || !(0 <= ratio && ratio <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; got %q", text)
		}
	}
	name := strings.ToLower(cmp.Or(e["OTEL_TRACES_SAMPLER"], "parentbased_always_on"))
	root, parentBased := strings.CutPrefix(name, "parentbased_")
	var s sdk.Sampler
	switch root {
	case "always_on":
		s = sdk.AlwaysSample()
	case "always_off":
		s = sdk.NeverSample()
	case "traceidratio":
		s = sdk.TraceIDRatioBased(ratio)
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, "+
			"or one of them after parentbased_; got %q", e["OTEL_TRACES_SAMPLER"])
	}
	if parentBased {
		return sdk.ParentBased(s), nil
	}
	return s, nil
}
