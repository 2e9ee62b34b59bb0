package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Config configures a Tracer.
type Config struct {
	Endpoint *url.URL    // of the POST requests; http or https, with a host and without a user
	Header   http.Header // of these requests; its values are secrets
	TLS      *tls.Config // of an https endpoint; nil: the default
	Gzip     bool        // compress the bodies
	Timeout  time.Duration

	Sampler  sdk.Sampler
	Resource []attribute.KeyValue

	QueueMax  int           // ended spans that wait for the exporter; the next ones are dropped
	BatchMax  int           // spans in a POST request
	BatchWait time.Duration // time for which a span waits for others

	// Ignored are the names of the OpenTelemetry variables that are set but have no effect.
	Ignored []string
}

// Variables with one form for all signals and one for traces.
const (
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	headersVariable  = "OTEL_EXPORTER_OTLP_HEADERS"
)

// variables are the supported variables. Each OTLP variable also exists for traces alone, as
// OTEL_EXPORTER_OTLP_TRACES_…, and that form takes precedence.
var variables = []string{
	"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
	"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
	endpointVariable, headersVariable, "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT",
	"OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
	"OTEL_EXPORTER_OTLP_CLIENT_KEY",
}

const otlpPrefix = "OTEL_EXPORTER_OTLP_"

// forTraces returns the form of an OTLP variable for traces alone.
func forTraces(name string) string { return strings.Replace(name, otlpPrefix, otlpPrefix+"TRACES_", 1) }

// environment is the variables of the process. An empty value counts as unset, as the specification of OpenTelemetry
// requires.
type environment map[string]string

// otlp returns the value and the name of an OTLP variable, in the form for traces if that is set.
func (e environment) otlp(name string) (value, from string) {
	if value := e[forTraces(name)]; value != "" {
		return value, forTraces(name)
	}
	return e[name], name
}

// FromEnvironment returns the configuration in the OTEL_… variables, or nil if tracing is off: it is on if an endpoint
// is set or OTEL_TRACES_EXPORTER is otlp. An error names the variable, and contains no value that may be a secret.
func FromEnvironment(variables map[string]string, version string) (*Config, error) {
	e := environment(variables)
	on, err := e.enabled()
	if err != nil || !on {
		return nil, err
	}
	c := &Config{Ignored: e.ignored()}
	var errs [8]error
	c.Endpoint, errs[0] = e.endpoint()
	c.Header, errs[1] = e.headers()
	c.TLS, errs[2] = e.tls()
	c.Gzip, errs[3] = e.gzip()
	c.Sampler, errs[4] = e.sampler()
	c.Resource, errs[5] = e.resource(version)
	errs[6] = e.protocol()
	errs[7] = e.numbers(c)
	return c, errors.Join(errs[:]...)
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

// ignored returns the names of the variables that are set but not supported, except for variables of metrics and logs.
func (e environment) ignored() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		general := strings.Replace(name, otlpPrefix+"TRACES_", otlpPrefix, 1)
		otherSignal := strings.Contains(name, "METRIC") || strings.Contains(name, "LOG") || strings.Contains(name, "BLRP")
		if strings.HasPrefix(name, "OTEL_") && e[name] != "" && !otherSignal && !slices.Contains(variables, general) {
			names = append(names, name)
		}
	}
	return names
}

// endpoint returns the URL of the POST requests: the endpoint for traces as it is, or the general one with the path of
// traces.
func (e environment) endpoint() (*url.URL, error) {
	text, from := e.otlp(endpointVariable)
	text = cmp.Or(text, "http://localhost:4318")
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		// The value may contain a password, so no error shows it.
		return nil, errors.New(from + " must be an http or https URL, such as http://localhost:4318")
	case u.User != nil:
		return nil, errors.New(from + " must have no user and no password; use " + headersVariable)
	}
	if from == endpointVariable {
		u = u.JoinPath("v1/traces")
	} else if u.Path == "" {
		u.Path = "/"
	}
	u.Fragment = ""
	return u, nil
}

// headers returns the headers, in the form name=value,name=value with percent-encoding.
func (e environment) headers() (http.Header, error) {
	text, from := e.otlp(headersVariable)
	header := http.Header{}
	for i, item := range items(text) {
		name, value, err := pair(item)
		if err != nil || !validHeader(name, value) {
			return nil, fmt.Errorf("%s: item %d is not a header; use the form name=value, with commas and other special "+
				"characters of the value percent-encoded", from, i+1)
		}
		header.Add(name, value)
	}
	return header, nil
}

// items returns the items of a comma-separated list.
func items(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(item string) bool { return strings.TrimSpace(item) == "" })
}

// pair returns the name and the decoded value of name=value.
func pair(item string) (name, value string, err error) {
	name, value, ok := strings.Cut(item, "=")
	name = strings.TrimSpace(name)
	if !ok || name == "" {
		return "", "", errors.New("no name or no equals sign")
	}
	value, err = url.PathUnescape(strings.TrimSpace(value))
	return name, value, err
}

func validHeader(name, value string) bool {
	for _, c := range []byte(name) {
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// tls returns the TLS configuration with the operator's certificates.
func (e environment) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, from := e.otlp("OTEL_EXPORTER_OTLP_CERTIFICATE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", from, file)
		}
	}
	certificate, from := e.otlp("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")
	key, _ := e.otlp("OTEL_EXPORTER_OTLP_CLIENT_KEY")
	if certificate == "" && key == "" {
		return c, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s and its key: %w", from, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

func (e environment) gzip() (bool, error) {
	switch text, from := e.otlp("OTEL_EXPORTER_OTLP_COMPRESSION"); strings.ToLower(text) {
	case "", "none":
		return false, nil
	case "gzip":
		return true, nil
	default:
		return false, fmt.Errorf("%s must be gzip or none; got %q", from, text)
	}
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

// resource returns the attributes of the process.
func (e environment) resource(version string) ([]attribute.KeyValue, error) {
	values := map[string]string{"service.name": "plantstore", "service.version": version}
	for i, item := range items(e["OTEL_RESOURCE_ATTRIBUTES"]) {
		name, value, err := pair(item)
		if err != nil {
			return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: item %d is not an attribute; use the form name=value, "+
				"with commas and other special characters of the value percent-encoded", i+1)
		}
		values[name] = value
	}
	if name := e["OTEL_SERVICE_NAME"]; name != "" {
		values["service.name"] = name
	}
	values["telemetry.sdk.name"], values["telemetry.sdk.language"] = "opentelemetry", "go"
	var list []attribute.KeyValue
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, attribute.String(name, strings.ToValidUTF8(values[name], "\ufffd")))
	}
	return list, nil
}

// numbers sets the times, in milliseconds, and the numbers of spans.
func (e environment) numbers(c *Config) error {
	number := func(text, from string, initial, least, most int) (int, error) {
		if text == "" {
			return initial, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%s must be an integer from %d to %d; got %q", from, least, most, text)
		}
		return n, nil
	}
	text, from := e.otlp("OTEL_EXPORTER_OTLP_TIMEOUT")
	timeout, err1 := number(text, from, 10_000, 1, 600_000)
	bsp := func(name string, initial, least, most int) (int, error) {
		return number(e["OTEL_BSP_"+name], "OTEL_BSP_"+name, initial, least, most)
	}
	delay, err2 := bsp("SCHEDULE_DELAY", 5000, 1, 60_000)
	var err3, err4 error
	c.QueueMax, err3 = bsp("MAX_QUEUE_SIZE", 2048, 1, 1<<20)
	c.BatchMax, err4 = bsp("MAX_EXPORT_BATCH_SIZE", 512, 1, 1<<14)
	c.BatchMax = min(c.BatchMax, c.QueueMax)
	c.Timeout, c.BatchWait = time.Duration(timeout)*time.Millisecond, time.Duration(delay)*time.Millisecond
	return errors.Join(err1, err2, err3, err4)
}

// exposed reports whether secrets in the headers cross a network in clear text.
func (c *Config) exposed() bool {
	ip := net.ParseIP(c.Endpoint.Hostname())
	local := strings.EqualFold(c.Endpoint.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
	return len(c.Header) > 0 && c.Endpoint.Scheme == "http" && !local
}

// shownEndpoint returns the endpoint for the log, without the query.
func (c *Config) shownEndpoint() string {
	return (&url.URL{Scheme: c.Endpoint.Scheme, Host: c.Endpoint.Host, Path: c.Endpoint.Path}).String()
}
