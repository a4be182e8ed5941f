package unit

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// groupOptions translates the [runtime] table for the supervisor.
func (u *Unit) groupOptions(settings *Options, onEvent func(supervisor.Event)) supervisor.Options {
	o, kind := u.Spec.Options, u.Candidate.Manifest.Transport.Kind
	mode := supervisor.Shared
	switch n := o.Instances.Count(); {
	case o.Instances.PerSession() || settings.PerKey:
		mode = supervisor.PerKey
	case n > 1:
		mode = supervisor.Fixed(n)
	}
	ended := func(err error) bool { return endedBy(kind, err) }
	if kind == manifest.KindExec || kind == status.TransportCluster {
		// a process of exec ends with its call and each call has its own; other nodes have no processes here
		ended = nil
	}
	var fault func(error) bool
	if kind == status.TransportCluster { // the node's own breaker watches its processes
		fault = func(err error) bool { return protocol.KindOf(err) == protocol.NodeLost }
	}
	restart := supervisor.Restart{
		MaxAttempts:  o.Restart.MaxAttempts,
		Window:       o.Restart.Window,
		BaseBackoff:  orNone(o.Restart.BaseBackoff),
		MaxBackoff:   orNone(o.Restart.MaxBackoff),
		HealthyAfter: orNone(o.Restart.HealthyAfter),
		Cooldown:     settings.Cooldown,
	}
	if settings.Cooldown == 0 && kind != status.TransportCluster {
		restart.Trial = trialEvery
		restart.OnCall = manifest.IsRemote(kind) && o.Restart.MaxAttempts < 0
	}
	var blocked func(error) bool
	if restart.OnCall || settings.Cooldown > 0 {
		blocked = needsSomebody
	}
	return supervisor.Options{
		Name:         u.breaker(),
		Mode:         mode,
		Lazy:         o.Activation == manifest.ActivationLazy,
		Keep:         settings.Keep,
		MaxInstances: o.MaxInstances,
		MaxInFlight:  o.MaxInFlight,
		MaxQueue:     orNone(o.MaxQueue),
		QueueTimeout: o.CallTimeout,
		IdleTimeout:  o.IdleTimeout,
		DrainTimeout: orNone(o.DrainTimeout),
		Restart:      restart,
		Fault:        fault,
		Ended:        ended,
		Replaced:     replaced,
		Blocked:      blocked,
		OnEvent:      onEvent,
	}
}

// breaker returns the name of the circuit breakers of the unit's instances, in logs, metrics and the status.
func (u *Unit) breaker() string { return "ext:" + u.Candidate.Manifest.Transport.Kind + ":" + u.ID() }

// endedBy reports whether err means that an instance is gone or about to be. A message that is too long ends a
// process, but not a service on NATS.
func endedBy(kind string, err error) bool {
	return protocol.ProcessEnded(err) && (kind != manifest.KindNATS || protocol.KindOf(err) != protocol.LineTooLong)
}

// trialEvery is the interval between starts of something that has failed: short enough to recover by itself after
// a bad hour, and long enough to cost nothing if the program is broken.
const trialEvery = 5 * time.Minute

// needsSomebody reports whether a server was not contacted because somebody has to act first: a login or a token is
// missing, or the extension may not run as it is configured.
func needsSomebody(err error) bool {
	switch protocol.KindOf(err) {
	case protocol.RequirementMissing, protocol.ManifestInvalid, protocol.ConfigInvalid, protocol.Untrusted:
		return true
	}
	return false
}

// replaced reports whether the host itself ended the run, because no one waits for its results.
func replaced(err error) bool { return protocol.KindOf(err) == protocol.Overloaded }

// orNone converts 0, which means none in a manifest, to -1, which means none to the supervisor.
func orNone[T int | time.Duration](n T) T { return cmp.Or(n, -1) }

// observe logs and counts an event of the group, and passes it on.
func (u *Unit) observe(e supervisor.Event) {
	if u.trial.pending.Load() && (e.State == supervisor.Restarting || e.State == supervisor.Failed) {
		return // the reload reports the failure
	}
	u.logEvent(e)
	if e.Kind == supervisor.StateChanged && e.State == supervisor.Spawning && e.Again {
		u.Calls.Restarted(time.Now())
	}
	if u.events.State != nil {
		u.events.State(e)
	}
}

// logEvent logs an event of a group, above info level only if somebody must act.
func (u *Unit) logEvent(e supervisor.Event) {
	log, ctx := u.Log, context.Background()
	if e.Key != "" {
		log = log.With("instance", e.Key)
	}
	switch {
	case u.events.LogState != nil && e.Kind == supervisor.StateChanged:
		u.events.LogState(log, e)
	case e.Kind == supervisor.BreakerChanged:
		logBreaker(log.With("breaker", e.Group), e)
	case u.saidAlready(e):
		log.LogAttrs(ctx, slog.LevelDebug, string(e.State), slog.String("reason", protocol.Reason(e.Err)),
			slog.Time("due", e.Next))
	case e.State == supervisor.Failed && !e.Next.IsZero():
		log.LogAttrs(ctx, slog.LevelError, "failed, and is tried once in a while",
			slog.String("reason", protocol.Reason(e.Err)), lastWords(e.Err),
			slog.Time("due", e.Next), slog.String("next", "fix it, then exthost restart "+u.ID()))
	case e.State == supervisor.Failed:
		log.LogAttrs(ctx, slog.LevelError, "failed, and will not be started again by itself",
			slog.String("reason", protocol.Reason(e.Err)), lastWords(e.Err),
			slog.String("next", "fix it, then exthost restart "+u.ID()))
	case e.State == supervisor.Restarting && replaced(e.Err):
		log.LogAttrs(ctx, slog.LevelWarn, "the host replaces it", slog.String("reason", protocol.Reason(e.Err)))
	case e.State == supervisor.Restarting:
		log.LogAttrs(ctx, slog.LevelWarn, "died, and will be restarted", slog.String("reason", protocol.Reason(e.Err)),
			lastWords(e.Err), slog.Int("attempt", e.Attempt), slog.Int("of", e.MaxAttempts), slog.Time("due", e.Next))
	case e.State == supervisor.Ready:
		u.logReady(log, e)
	default:
		log.LogAttrs(ctx, slog.LevelDebug, string(e.State))
	}
}

// logReady logs a start: one that a warning came before, and one that no call has asked for.
func (u *Unit) logReady(log *slog.Logger, e supervisor.Event) {
	switch ctx := context.Background(); {
	case e.Attempt > 0:
		log.LogAttrs(ctx, slog.LevelInfo, "ready again", slog.Int("attempt", e.Attempt))
	case !onDemand(u.Spec):
		log.LogAttrs(ctx, slog.LevelInfo, "started")
	default:
		log.LogAttrs(ctx, slog.LevelDebug, string(e.State))
	}
}

// saidAlready reports whether the log, or the diagnostic of the caller that waited for the start, already has
// this failure: the previous start failed in the same way, and none has succeeded since.
func (u *Unit) saidAlready(e supervisor.Event) bool {
	now := string(e.State) + " " + string(protocol.KindOf(e.Err))
	switch e.State {
	case supervisor.Ready:
		now = ""
	case supervisor.Restarting, supervisor.Failed:
	default:
		return false
	}
	before, _ := u.said.Swap(now).(string)
	return now != "" && (e.Asked || now == before)
}

func logBreaker(log *slog.Logger, e supervisor.Event) {
	switch ctx := context.Background(); e.Breaker {
	case supervisor.BreakerOpen:
		log.LogAttrs(ctx, slog.LevelWarn, "breaker open: calls are refused until a probe may pass",
			slog.Time("until", e.Next))
	case supervisor.BreakerHalfOpen:
		log.LogAttrs(ctx, slog.LevelInfo, "breaker half_open: the next call is the probe")
	default:
		log.LogAttrs(ctx, slog.LevelInfo, "breaker closed")
	}
}

// lastWords returns the last words of a process as an attribute, empty if there are none.
func lastWords(err error) slog.Attr {
	words := protocol.LastWords(err)
	if words == "" {
		return slog.Attr{}
	}
	return slog.String("last_words", words)
}
