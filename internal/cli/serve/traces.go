package serve

import (
	"context"
	"fmt"
	"os"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/traces"
	"github.com/exthost/exthost/internal/secret/secrets"
)

// tracer returns the tracer for calls, or nil, and a function that sends pending spans. If traces cannot be sent, the
// host serves without them and logs why.
func (r *run) tracer(ctx context.Context, cfg *config.Config) (exthost.Tracer, func()) {
	o := traces.Options{
		Settings: cfg.OTel,
		Environ:  traces.Environ(os.Environ()),
		Version:  exthost.Version(),
		Log:      r.log,
	}
	headers, err := collectorHeaders(ctx, cfg)
	var t *traces.Tracer
	if o.Settings.Headers = headers; err == nil {
		t, err = traces.Open(ctx, o)
	}
	if err != nil {
		r.log.Warn("no traces are sent", "reason", err.Error(), "next", "correct it, then start the host again")
	}
	if t == nil {
		return nil, func() {}
	}
	return t, t.Close
}

// collectorHeaders returns the configured headers with the values of secrets.
func collectorHeaders(ctx context.Context, cfg *config.Config) (map[string]string, error) {
	if cfg.OTel.Headers == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Secrets.Timeout.Std())
	defer cancel()
	store, headers := hosts.Secrets(cfg), make(map[string]string)
	for name, text := range cfg.OTel.Headers {
		value, err := secrets.Replace(text, func(secret string) (string, error) { return store.Lookup(ctx, secret) })
		if err != nil {
			return nil, fmt.Errorf("otel.headers.%s: %w", name, err)
		}
		headers[name] = value
	}
	return headers, nil
}
