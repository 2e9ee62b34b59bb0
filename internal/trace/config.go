package trace

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"
)

// Config configures a Tracer. The exporter and the SDK read the other variables of OpenTelemetry from the environment of
// the process.
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
	if err := errors.Join(err1, err2, e.protocol(), e.checkHeaders()); err != nil {
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

// endpoint returns the endpoint for traces as it is, or the general one with the path of traces.
func (e environment) endpoint() (*url.URL, error) {
	text, from := e.otlp(endpointVariable)
	text = cmp.Or(text, "http://localhost:4318")
	u, err := url.Parse(text)
	switch { // the value may have a password, so no error shows it
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New(from + " must be an http or https URL, such as http://localhost:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New(from + " must have no user, no query and no fragment; use " + headersVariable)
	}
	if from == endpointVariable {
		u = u.JoinPath("v1/traces")
	} else if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// checkHeaders refuses headers that the exporter would log with their values, which are secrets.
func (e environment) checkHeaders() error {
	text, from := e.otlp(headersVariable)
	n := 0
	for item := range strings.SplitSeq(text, ",") {
		n++
		name, value, ok := strings.Cut(item, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		valid := ok && err == nil && httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) && httpguts.ValidHeaderFieldValue(value)
		if !valid && strings.TrimSpace(item) != "" {
			return fmt.Errorf("%s: item %d is not a header; use the form name=value, with commas and other special "+
				"characters of the value percent-encoded", from, n)
		}
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
