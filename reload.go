package exthost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/host/watch"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// reloads applies changes of the configuration and of the disk, one reload at a time.
type reloads struct {
	h      *Host
	onDisk atomic.Pointer[discovery.Places]

	mu      sync.Mutex        // held by a reload; guards the fields below
	seen    [sha256.Size]byte // of the plan last found on disk
	pending bool              // that plan has not been applied
	spoiled [sha256.Size]byte // of the plan whose application failed
	problem string            // why the configuration last found cannot be used
}

var _ watch.Host = (*reloads)(nil)

// setPlaces sets the places that the watch looks at: those of the plan next, and those of now, the plan in force.
func (r *reloads) setPlaces(next, now *snapshot.Plan) {
	places := next.Places(now)
	r.onDisk.Store(&places)
}

// Reloaded is the outcome of a reload.
type Reloaded struct {
	Change *status.Change // nil if Err is not
	Err    error          // why nothing was changed
	Took   time.Duration  // since the request, or since the first sign of a change
}

// Reload is [Admin.Reload].
func (r *reloads) Reload(ctx context.Context, only ...string) (*status.Change, error) {
	began := time.Now()
	change, err := r.reload(ctx, only)
	r.reloaded(Reloaded{change, err, time.Since(began)})
	return change, err
}

// reloaded reports the outcome of a reload to listeners, the watch and the embedding program.
func (r *reloads) reloaded(o Reloaded) {
	r.h.stats.feed.Reload(o.Change, o.Err)
	if o.Err == nil {
		r.h.watch.Applied(o.Change)
	}
	if r.h.opts.OnReload != nil {
		r.h.opts.OnReload(o)
	}
}

// reload carries out a requested reload, of all extensions or only of these ids.
func (r *reloads) reload(ctx context.Context, only []string) (change *status.Change, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if err != nil || only == nil {
			r.keep(err)
		}
	}()
	if r.h.life.closing.Err() != nil {
		return nil, protocol.Errorf(protocol.ShuttingDown, "the host is closed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.h.life.closing, cancel)()
	if err := r.h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := r.plan(ctx, only)
	if err != nil {
		return nil, err
	}
	if only == nil {
		r.seen, r.pending = next.Sum(), false
	}
	if err := r.apply(ctx, next, change); err != nil {
		r.spoiled = next.Sum()
		return nil, err
	}
	r.log(change)
	return change, nil
}

// keep keeps the error of a reload for the status; nil clears it.
func (r *reloads) keep(err error) {
	switch protocol.KindOf(err) {
	case protocol.Canceled, protocol.CallTimeout, protocol.ShuttingDown: // the caller or the host gave up
	case protocol.Overloaded:
		r.h.env.Log.Error("not reloaded, everything goes on as it was", "error", err)
	default:
		r.h.diagnostics.SetRefused(err)
	}
}

func (r *reloads) log(c *status.Change) {
	for _, line := range c.Rules {
		r.h.env.Log.Warn("a rule has changed", "change", line)
	}
	r.h.env.Log.Info("reloaded", "added", c.Added, "changed", c.Changed, "removed", c.Removed, "skills", c.Skills,
		"policies", c.Policies,
		"destinations", c.Destinations, "clients", c.Clients,
		"kept", len(c.Kept), "failed", len(c.Failed))
	watch.LogUnused(r.h.env.Log, c)
}

// plan makes the next plan, which reuses the running units that have not changed, and returns its difference from
// the current plan. If only is not empty, the plan changes only these extensions.
func (r *reloads) plan(ctx context.Context, only []string) (*snapshot.Plan, *status.Change, error) {
	now := r.h.snapshots.Load().Plan
	next, cfg, err := r.read(ctx, now, only)
	for again := 0; err == nil && again < maxRereads && r.h.opts.Mode.Built != nil && !r.h.opts.Mode.Built(); again++ {
		next, cfg, err = r.read(ctx, now, only)
	}
	if err != nil {
		return nil, nil, err
	}
	if d := next.Exhausted(); d != nil { // a fault of the host, and no change of the disk
		r.h.watch.Retry()
		return nil, nil, protocol.Errorf(protocol.Overloaded,
			"not reloaded: %s; everything goes on as it was, and the host looks again every %v", d, watch.RetryPause)
	}
	r.setPlaces(next, now)
	change := next.Follow(now, r.h.atOpen)
	if only != nil {
		next.Only(now, change, only)
	} else {
		change.Clients = r.h.clients.Changed(cfg.Server.Clients)
	}
	return next, change, nil
}

// maxRereads bounds how often a reload begins anew because of saves; the watch finds what is saved later.
const maxRereads = 3

// read reads the configuration and the disk for the plan that follows now.
func (r *reloads) read(ctx context.Context, now *snapshot.Plan, only []string) (*snapshot.Plan, *config.Config, error) {
	cfg := now.Config
	if r.h.opts.Reread != nil {
		var err error
		if cfg, err = r.h.opts.Reread(); err != nil {
			return nil, nil, err
		}
	}
	if only != nil {
		cfg = snapshot.OnlyRules(now.Config, cfg)
	}
	next, err := r.h.discover(ctx, cfg, now)
	return next, cfg, err
}

// Places implements [watch.Host].
func (r *reloads) Places() discovery.Places { return *r.onDisk.Load() }

// Settings implements [watch.Host].
func (r *reloads) Settings() config.Watch { return r.h.snapshots.Load().Config.Extensions.Watch }

// CatchUp implements [watch.Host]. It looks for changes on disk since the last look and, if apply is set, reloads
// them. since is the time of the first sign of a change. CatchUp returns nil, nil if nothing has changed or the
// problem is the same as before. Unlike a requested reload, it does not restart failed extensions that have not
// changed.
func (r *reloads) CatchUp(ctx context.Context, apply bool, since time.Time) (*status.Change, error) {
	change, err := r.catchUp(ctx, apply)
	if apply && (change != nil || err != nil) && ctx.Err() == nil {
		r.reloaded(Reloaded{change, err, time.Since(since)})
	}
	return change, err
}

func (r *reloads) catchUp(ctx context.Context, apply bool) (*status.Change, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil { // the host was closed meanwhile
		return nil, ctx.Err()
	}
	if err := r.h.Ready(ctx); err != nil {
		return nil, err
	}
	next, change, err := r.plan(ctx, nil)
	if err == nil {
		sum := next.Sum()
		if sum == r.seen && !(apply && r.pending) {
			if r.problem = ""; sum != r.spoiled {
				r.keep(nil)
			}
			return nil, nil
		}
		r.seen, r.pending = sum, !apply
	}
	if err == nil && apply {
		change.Retried = []string{}
		if err = r.apply(ctx, next, change); err != nil {
			r.spoiled = r.seen
		}
	}
	return r.caughtUp(ctx, apply, change, err)
}

// caughtUp reports the outcome of a look for changes. It returns nil, nil for the same problem as before.
func (r *reloads) caughtUp(ctx context.Context, apply bool, change *status.Change, err error) (*status.Change, error) {
	switch {
	case ctx.Err() != nil || err != nil && err.Error() == r.problem:
		return nil, ctx.Err()
	case err != nil:
		r.problem = err.Error()
		r.keep(err)
		return nil, err
	case apply:
		r.log(change)
	default:
		watch.LogChange(r.h.env.Log, change)
	}
	r.problem = ""
	r.keep(nil)
	return change, nil
}

// followPlaces puts a plan in force with the extensions that other nodes share now.
func (r *reloads) followPlaces() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h.life.closing.Err() != nil {
		return
	}
	next := *r.h.snapshots.Load().Plan
	r.h.followPlaces(&next)
	r.h.units.Add(next.Units())
	r.h.swap(&next)
	r.retire(&next)
}

// apply starts the new units of next, puts next in force, and ends the units that are not part of it.
func (r *reloads) apply(ctx context.Context, next *snapshot.Plan, c *status.Change) error {
	now := r.h.snapshots.Load().Plan
	beside, after := r.prepare(now, next, c)
	r.h.units.Add(next.Units())
	if err := r.startPolicies(ctx, now, next); err != nil {
		r.retire(now)
		return err
	}
	for u, err := range unit.StartEach(ctx, r.h.opts.toStart(beside)) {
		if err != nil && ctx.Err() == nil {
			r.notStarted(u, err, replaced(now, u), next, c)
		}
	}
	if err := ctx.Err(); err != nil { // nothing has changed yet
		r.retire(now)
		return fmt.Errorf("the reload was given up: %w", err)
	}
	r.h.adopt(next)
	forgetFailures(next, c)
	for _, name := range c.Policies {
		r.h.forgetDenials(name, time.Now())
	}
	r.forgetMended(next, c)
	if now.ListsOtherwise(next) {
		r.h.life.announce.Add()
	}
	if len(c.Policies) > 0 && (now.Policies.Pipeline.MayHide() || next.Policies.Pipeline.MayHide()) {
		r.h.life.announce.Add() // clients may see other tools than before, though extensions offer the same
		for _, d := range next.Destinations {
			r.h.gateway.NotifyListed(d.Base(), nil, protocol.MethodToolsListChanged)
		}
	}
	r.retire(next)
	r.retirePipeline(now.Policies.Pipeline, next.Policies.Pipeline)
	for u, err := range unit.StartEach(ctx, r.h.opts.toStart(after)) {
		if err != nil {
			r.notStarted(u, err, nil, next, c)
		}
	}
	r.restartFailed(ctx, next, c)
	slices.SortStableFunc(c.Failed, func(a, b protocol.Diagnostic) int { return cmp.Compare(a.Extension, b.Extension) })
	if len(c.Clients) > 0 {
		// Reload logs its error. It reads the file again: the clients in force may be newer than this reload.
		_ = r.h.clients.Reload()
	}
	r.h.swap(nil)
	return nil
}

// forgetFailures ends the rows of failures of the builds that next replaces.
func forgetFailures(next *snapshot.Plan, c *status.Change) {
	for _, id := range slices.Concat(c.Changed, c.Destinations) {
		if t := next.Target(id); t != nil {
			t.Base().Calls.Forget()
		}
	}
}

// restartFailed restarts the unchanged units that had failed.
func (r *reloads) restartFailed(ctx context.Context, next *snapshot.Plan, c *status.Change) {
	var failed []unit.Runner
	for _, id := range c.Retried {
		failed = append(failed, next.Unit(id))
	}
	for u, err := range unit.RestartEach(ctx, failed) {
		r.Restarted(ctx, u, err)
		if err != nil {
			c.Failed = append(c.Failed, u.Base().StartDiagnostic(err))
		}
	}
}

// prepare returns the new units that start while the previous builds still run, and those that start once their
// previous build has ended.
func (r *reloads) prepare(now, next *snapshot.Plan, c *status.Change) (beside, after []unit.Runner) {
	for _, id := range slices.Concat(c.Added, c.Changed) {
		x, before := next.Extensions[id], now.Extensions[id]
		r.forgetStart(x.ID())
		switch {
		case before == nil:
			beside = append(beside, x)
		case x.Spec.Options.Reload == manifest.ReloadStopFirst:
			x.Follows(before.Unit)
			after = append(after, x)
		case before.HasFailed(): // nothing of it runs that could be kept
			x.Calls = before.Calls
			beside = append(beside, x)
		default:
			x.Replaces(before.Unit)
			beside = append(beside, x)
		}
	}
	for _, name := range c.Destinations {
		d, before := next.Destinations[name], now.Destinations[name]
		if d == nil {
			continue // removed
		}
		r.forgetStart(d.ID())
		if before != nil {
			d.Calls = before.Calls
		}
		beside = append(beside, d)
	}
	return beside, after
}

// replaced returns the running build that u was to replace, or nil.
func replaced(now *snapshot.Plan, u unit.Runner) snapshot.Target {
	before := now.Target(u.Base().ID())
	if _, ok := before.(*unit.Extension); ok && !u.Base().ReplacesRunning() {
		return nil
	}
	return before
}

// startPolicies starts the policy processes that are new in next. If one does not start, the whole reload fails.
func (r *reloads) startPolicies(ctx context.Context, now, next *snapshot.Plan) error {
	var fresh []unit.Runner
	for _, p := range next.Policies.Processes {
		if !now.Has(p) {
			fresh = append(fresh, p)
		}
	}
	var refused config.Refused
	for u, err := range unit.StartEach(ctx, r.h.opts.toStart(fresh)) {
		if err != nil {
			refused = append(refused, policies.Refusal(next.Config, u.(*policies.Process).Name, " does not start", err))
		}
	}
	if refused == nil {
		return nil
	}
	return protocol.Errorf(protocol.ConfigInvalid, "%w", refused)
}

// notStarted reports that u did not start. before is the running build that u was to replace; notStarted puts it back
// into next.
func (r *reloads) notStarted(u unit.Runner, err error, before snapshot.Target, next *snapshot.Plan, c *status.Change) {
	id, d := u.Base().ID(), u.Base().StartDiagnostic(err)
	if before == nil {
		c.Failed = append(c.Failed, d)
	} else {
		next.Keep(before)
		isID := func(other string) bool { return other == id }
		c.Changed, c.Destinations = slices.DeleteFunc(c.Changed, isID), slices.DeleteFunc(c.Destinations, isID)
		c.Kept = append(c.Kept, status.KeptBuild{ID: id, Reason: d.Message, Evidence: protocol.EvidenceOf(err)})
		d.Hint = newerBuild
	}
	if protocol.KindOf(err) != protocol.ShuttingDown {
		r.h.diagnostics.Add(d)
	}
}

// forgetMended removes the diagnostics about starts of units that next does not have, and of newer builds that the disk
// does not have any more.
func (r *reloads) forgetMended(next *snapshot.Plan, c *status.Change) {
	for _, id := range slices.Concat(c.Removed, c.Destinations) {
		if next.Target(id) == nil {
			r.forgetStart(id)
		}
	}
	r.h.diagnostics.Remove(func(d protocol.Diagnostic) bool {
		return strings.HasPrefix(d.Message, unit.StartFailed) && d.Hint == newerBuild &&
			!slices.ContainsFunc(c.Kept, func(k status.KeptBuild) bool { return k.ID == d.Extension })
	})
}

// newerBuild is the hint of a diagnostic about a build that was to replace a running one.
const newerBuild = "the previous build runs; fix it and reload"

// forgetStart removes the diagnostics about earlier starts of unit id.
func (r *reloads) forgetStart(id string) {
	r.h.diagnostics.Remove(func(d protocol.Diagnostic) bool {
		return d.Extension == id && strings.HasPrefix(d.Message, unit.StartFailed)
	})
}

// notStartedYet adds a diagnostic that u did not start, which is removed once an instance is ready.
func (r *reloads) notStartedYet(u unit.Runner, err error) {
	r.h.diagnostics.Add(u.Base().StartDiagnostic(err))
	if u.Base().IsReady() { // an instance may have become ready just before
		r.forgetStart(u.Base().ID())
	}
}

// started removes the diagnostics about earlier starts of a unit when an instance is ready. One about a newer build
// stays: the ready instance belongs to the previous one.
func (r *reloads) started(id string, e supervisor.Event) {
	if e.Kind != supervisor.StateChanged || e.State != supervisor.Ready {
		return
	}
	r.h.diagnostics.Remove(func(d protocol.Diagnostic) bool {
		return d.Extension == id && d.Hint != newerBuild && strings.HasPrefix(d.Message, unit.StartFailed)
	})
}

// Restarted reports the outcome of a restart of u.
func (r *reloads) Restarted(ctx context.Context, u unit.Runner, err error) {
	if policy, ok := strings.CutPrefix(u.Base().ID(), status.PolicyPrefix); ok && err == nil {
		r.h.forgetDenials(policy, time.Now()) // the event of the new process may come later
	}
	switch {
	case err == nil:
		r.forgetStart(u.Base().ID())
		r.h.life.rebuild.Add()
	case ctx.Err() != nil:
	case protocol.KindOf(err) != protocol.ShuttingDown:
		r.forgetStart(u.Base().ID())
		r.notStartedYet(u, err)
	}
}

// retire ends every unit that is not part of p.
func (r *reloads) retire(p *snapshot.Plan) {
	past := r.h.snapshots.Past()
	for _, u := range r.h.units.All() {
		if !p.Has(u) && u.Base().Retire() && !r.h.life.beside.Go(func() { r.end(u, past) }) {
			r.end(u, past) // the host is closing and admits no goroutines
		}
	}
}

// end drains u and forgets it. If the host closes meanwhile, Close stops u with all other units.
func (r *reloads) end(u unit.Runner, past []<-chan struct{}) {
	if unit.Drain(r.h.life.closing, u, past) {
		r.h.units.Remove(u)
		u.Base().Stopped()
	}
}

// retirePipeline closes a replaced pipeline once the calls of past snapshots have ended. Policies that are also
// in the next pipeline go on.
func (r *reloads) retirePipeline(before, now *governance.Pipeline) {
	if before == now {
		return
	}
	past := r.h.snapshots.Past()
	r.h.life.beside.Go(func() {
		for _, left := range past {
			select {
			case <-left:
			case <-r.h.life.closing.Done():
			}
		}
		r.h.policies.ClosePipeline(context.Background(), before)
	})
}
