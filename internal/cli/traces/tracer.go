//go:build !slim

package traces

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	otelsdk "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/exthost/exthost/status"
)

// Tracer creates the spans of one host. It implements exthost.Tracer.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sender   *sender
}

// The wait before the first retry of a batch, the longest wait between retries, and the time after which a batch is
// lost.
const (
	firstRetry = 500 * time.Millisecond
	maxRetry   = 2 * time.Second
	lastRetry  = 6 * time.Second
)

// closing is how long the end of a host may take to send pending spans.
const closing = 3 * time.Second

// Open returns the tracer for a host; nil if traces are off. It does not connect. It returns an error for OTEL_*
// variables that ask for something unsupported.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	endpoint, err := o.endpoint()
	if err != nil || endpoint == "" {
		return nil, err
	}
	quiet()
	options := []otlptracehttp.Option{
		otlptracehttp.WithProxy(proxyOf),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled:         true,
			InitialInterval: firstRetry,
			MaxInterval:     maxRetry,
			MaxElapsedTime:  lastRetry,
		}),
	}
	if o.Settings.Endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(o.Settings.URL()))
	}
	if o.Settings.Headers != nil {
		options = append(options, otlptracehttp.WithHeaders(o.Settings.Headers))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces cannot be sent: %w", err)
	}
	t := &Tracer{sender: newSender(exporter, &o, endpoint)}
	about, err := o.resource(ctx)
	if err != nil {
		o.Log.Warn("OTEL_RESOURCE_ATTRIBUTES is not used in full", "reason", err.Error())
	}
	provider := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithSpanProcessor(t.sender)}
	if ratio, ok := o.Settings.Sampling.Float(); ok {
		provider = append(provider, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
	}
	t.provider = sdktrace.NewTracerProvider(provider...)
	t.tracer = t.provider.Tracer("github.com/exthost/exthost", trace.WithInstrumentationVersion(o.Version))
	return t, nil
}

// proxyOf returns the proxy for a request from the environment. It fails for a redirect, because the SDK's HTTP client
// would send headers with secrets to any server, and turn some requests into ones without spans. A custom client is no
// option: it would ignore the TLS variables.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, fmt.Errorf("the collector answers with a redirect (%s), which is not followed: state the address "+
			"that it leads to", r.Response.Status)
	}
	return http.ProxyFromEnvironment(r)
}

// quiet silences the global log of the SDK, which would write invalid variables to stderr: those with headers contain
// secrets. Failed exports are in the host's log.
func quiet() {
	otelsdk.SetLogger(logr.Discard())
	otelsdk.SetErrorHandler(otelsdk.ErrorHandlerFunc(func(error) {}))
}

// resource returns the resource of all spans. With an error about invalid attributes, the resource is still valid.
func (o *Options) resource(ctx context.Context) (*resource.Resource, error) {
	list := []attribute.KeyValue{attribute.String("service.version", o.Version)}
	if o.Settings.Service != "" || o.Environ["OTEL_SERVICE_NAME"] == "" {
		name := o.Settings.Service
		if name == "" {
			name = "exthost"
		}
		list = append(list, attribute.String("service.name", name))
	}
	stated := resource.WithFromEnv()
	if o.Settings.Service != "" { // the configuration overrides the variable
		return resource.New(ctx, resource.WithTelemetrySDK(), stated, resource.WithAttributes(list...))
	}
	return resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(list...), stated)
}

// Close sends pending spans for at most 3 s. Nothing is sent after it returns.
func (t *Tracer) Close() {
	patience := closing
	if t.sender.report().Problem != "" {
		patience = closing / 6 // the collector was away before
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the report counts what was not sent
	t.sender.end()
}

// Report implements exthost.Tracer.
func (t *Tracer) Report() *status.Tracing { return t.sender.report() }
