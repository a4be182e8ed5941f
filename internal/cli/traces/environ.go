// Package traces records calls as OpenTelemetry spans and sends them to a collector over OTLP/HTTP.
package traces

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
)

// Options configure a [Tracer].
type Options struct {
	Settings config.Tracing    // headers contain the values of secrets
	Environ  map[string]string // the variables OTEL_*
	Version  string            // of the host
	Log      *slog.Logger
}

// Environ returns the variables OTEL_* of an environment.
func Environ(environ []string) map[string]string {
	found := make(map[string]string)
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "OTEL_") {
			found[name] = strings.TrimSpace(value)
		}
	}
	return found
}

// endpoint returns where spans are sent; "" if traces are off. It reads the variables that decide whether there is an
// exporter, which reads most other variables itself.
func (o *Options) endpoint() (string, error) {
	env := o.Environ
	if strings.EqualFold(env["OTEL_SDK_DISABLED"], "true") {
		return "", nil
	}
	if o.Settings.Endpoint != "" {
		return o.Settings.URL(), nil
	}
	endpoint, from := env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	if endpoint == "" {
		endpoint, from = env["OTEL_EXPORTER_OTLP_ENDPOINT"], "OTEL_EXPORTER_OTLP_ENDPOINT"
		if endpoint == "" {
			return "", nil
		}
		endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces" // as OTLP specifies
	}
	if exporters := env["OTEL_TRACES_EXPORTER"]; exporters != "" &&
		!slices.Contains(strings.Split(exporters, ","), "otlp") {
		return "", nil
	}
	switch protocol := cmp.Or(env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"], env["OTEL_EXPORTER_OTLP_PROTOCOL"]); protocol {
	case "", "http/protobuf", "http/json":
	default:
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, and only http/protobuf and http/json are served "+
			"here; set it, or otel.endpoint", protocol)
	}
	if err := config.CheckTracingEndpoint(endpoint); err != nil {
		return "", fmt.Errorf("%s cannot be used: %w", from, err)
	}
	return endpoint, nil
}
