package exthost

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// groupOptions translate an extension's [runtime] table for its supervisor.
func groupOptions(x *extension, o manifest.Options) supervisor.Options {
	c := x.candidate
	mode := supervisor.Shared
	switch n := o.Instances.Count(); {
	case o.Instances.PerSession():
		mode = supervisor.PerKey
	case n > 1:
		mode = supervisor.Fixed(n)
	}
	ended := processEnded
	if c.Manifest.Transport.Kind == manifest.KindExec {
		ended = nil // a process ends with its call, and the next call has another
	}
	return supervisor.Options{
		Name: "ext:" + c.Manifest.Transport.Kind + ":" + c.ID, Mode: mode,
		Lazy:         o.Activation == manifest.ActivationLazy,
		Keep:         func(key string) bool { return x.bridge != nil && strings.HasPrefix(key, sessionPrefix) },
		MaxInstances: o.MaxInstances, MaxInFlight: o.MaxInFlight, MaxQueue: orNone(o.MaxQueue),
		QueueTimeout: o.CallTimeout, IdleTimeout: o.IdleTimeout, DrainTimeout: orNone(o.DrainTimeout),
		Restart: supervisor.Restart{
			MaxAttempts: o.Restart.MaxAttempts, Window: o.Restart.Window,
			BaseBackoff: orNone(o.Restart.BaseBackoff), MaxBackoff: orNone(o.Restart.MaxBackoff), HealthyAfter: orNone(o.Restart.HealthyAfter),
		},
		Ended:    ended,
		Replaced: func(err error) bool { return protocol.KindOf(err) == protocol.Overloaded },
		OnEvent:  func(e supervisor.Event) { x.logEvent(e) },
	}
}

// watched has what happens to x counted, and told to hooks and to those who listen.
func (h *Host) watched(x *extension, options manifest.Options) supervisor.Options {
	o := groupOptions(x, options)
	logged := o.OnEvent
	o.OnEvent = func(e supervisor.Event) {
		if x.proving.Load() && (e.State == supervisor.Restarting || e.State == supervisor.Failed) {
			return // it has no place yet that it could lose
		}
		logged(e)
		if e.Kind == supervisor.StateChanged && e.State == supervisor.Restarting {
			x.calls.restarts.Add(1)
		}
		h.feed.stateEvent(x.candidate.ID, e)
		if x.policy == nil && x.bridge == nil {
			h.stateChanged(x.candidate.ID, e)
		}
	}
	return o
}

// processEnded reports whether err says that the process behind an instance is
// gone or about to be.
func processEnded(err error) bool {
	switch protocol.KindOf(err) {
	case protocol.ChildExited, protocol.LineTooLong, protocol.StdoutClosed, protocol.WriteStalled,
		protocol.Overloaded: // by calls that nobody waits for any more: the host replaces it
		return true
	}
	return false
}

// orNone spells 0, none, as the supervisor does.
func orNone[T int | time.Duration](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

// logEvent says what happened to an extension, loud only when somebody must act.
func (x *extension) logEvent(e supervisor.Event) {
	log, id := x.log, x.candidate.ID
	if e.Key != "" {
		log = log.With("instance", e.Key)
	}
	ctx := context.Background()
	switch {
	case x.bridge != nil && e.Kind == supervisor.StateChanged:
		x.logConnection(log, e)
	case e.Kind == supervisor.BreakerChanged:
		log.LogAttrs(ctx, slog.LevelWarn, "breaker "+string(e.Breaker), slog.Time("until", e.Next))
	case e.State == supervisor.Failed && e.Asked:
		// Whoever asked for it reports the error once.
	case e.State == supervisor.Failed:
		log.LogAttrs(ctx, slog.LevelError, "failed, and will not be started again by itself",
			slog.String("reason", message(e.Err)), lastWordsAttr(e.Err), slog.String("next", "mend it, then exthost restart "+id))
	case e.State == supervisor.Restarting:
		log.LogAttrs(ctx, slog.LevelWarn, "died, and will be restarted", slog.String("reason", message(e.Err)),
			lastWordsAttr(e.Err), slog.Int("attempt", e.Attempt), slog.Int("of", e.MaxAttempts), slog.Time("due", e.Next))
	case e.State == supervisor.Ready && e.Attempt > 0: // the end of what was a warning
		log.LogAttrs(ctx, slog.LevelInfo, "ready again", slog.Int("attempt", e.Attempt))
	default:
		log.LogAttrs(ctx, slog.LevelDebug, string(e.State))
	}
}
