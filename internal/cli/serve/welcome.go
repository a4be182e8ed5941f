package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/supervisor"
)

// greetPatience is how long the greeting waits for extensions that start slowly, for
// instance because they are downloaded first.
const greetPatience = 3 * time.Second

// welcome tells the operator which extensions run: once all have started or, after
// greetPatience, as far as they have. The log tells the rest.
func (r *run) welcome(ctx context.Context, h *exthost.Host, f front) {
	patient, cancel := context.WithTimeout(ctx, greetPatience)
	defer cancel()
	late := h.Ready(patient) != nil
	if late && ctx.Err() != nil {
		return // stopped before that
	}
	s, took := h.Status(), time.Since(r.began)
	r.log.Debug("extensions are held", "by", s.Containment.Holds, "not_by", s.Containment.Lacks)
	if r.greets() {
		greet(r.console, h, f, took)
	} else {
		logGreeting(h, f, took, r.log)
	}
	r.greeted.Store(true)
	if late && h.Ready(ctx) == nil {
		r.log.Info("all extensions have started or failed", "after", time.Since(r.began).Round(time.Millisecond).String(), "tools", len(h.Tools().Entries()))
	}
}

// greets reports whether a person reads stderr.
func (r *run) greets() bool { return console.IsTerminal(r.console.Err) }

func logGreeting(h *exthost.Host, f front, took time.Duration, log *slog.Logger) {
	s, entries, count := h.Status(), h.Tools().Entries(), map[string]int{}
	for _, x := range s.Extensions {
		count[x.State]++
	}
	url := overStdio
	if f.url != "" {
		url = f.url + "/mcp"
		log = log.With("dashboard", f.url+"/ui/", "token_file", f.operator.file)
	}
	log.Info("serving", "at", url, "version", s.Version, "extensions", len(s.Extensions), "skipped", count[exthost.StateSkipped],
		"failed", count[string(supervisor.Failed)], "tools", len(entries), "tokens", hosts.Tokens(entries),
		"after", took.Round(time.Millisecond).String())
}

// logger logs to stderr, where a person sees nothing before the greeting.
func (r *run) logger(cfg config.Log) (*slog.Logger, error) {
	if !r.greets() {
		return r.console.Logger(cfg, nil)
	}
	return r.console.Logger(cfg, func(h slog.Handler) slog.Handler { return afterGreeting{h, &r.greeted} })
}

// afterGreeting is a handler that is silent until the greeting is printed, which tells
// the events of the start better.
type afterGreeting struct {
	slog.Handler
	greeted *atomic.Bool
}

func (h afterGreeting) Enabled(ctx context.Context, level slog.Level) bool {
	return h.greeted.Load() && h.Handler.Enabled(ctx, level)
}

func (h afterGreeting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return afterGreeting{h.Handler.WithAttrs(attrs), h.greeted}
}

func (h afterGreeting) WithGroup(name string) slog.Handler {
	return afterGreeting{h.Handler.WithGroup(name), h.greeted}
}
