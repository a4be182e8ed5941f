package exthost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/host/units"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// apply starts the new units of next, puts next in force, and ends the units that are not part of it.
func (r *reloads) apply(ctx context.Context, next *snapshot.Plan, c *status.Change) error {
	now := r.h.snapshots.Load().Plan
	beside, after := r.prepare(now, next, c)
	r.h.units.Add(next.Units())
	if err := r.startPolicies(ctx, now, next); err != nil {
		r.retire(now)
		return err
	}
	for u, err := range units.StartEach(ctx, r.h.opts.toStart(beside)) {
		if err != nil && ctx.Err() == nil {
			r.notStarted(u, err, now.Target(u.Base().ID()), next, c)
		}
	}
	if err := ctx.Err(); err != nil { // nothing has changed yet
		r.retire(now)
		return fmt.Errorf("the reload was given up: %w", err)
	}
	r.h.adopt(next)
	if now.ListsOtherwise(next) {
		r.h.life.announce.Add()
	}
	if len(c.Policies) > 0 && (now.Policies.Pipeline.MayHide() || next.Policies.Pipeline.MayHide()) {
		r.h.life.announce.Add() // clients may see other tools than before, though extensions offer the same
	}
	r.retire(next)
	r.retirePipeline(now.Policies.Pipeline, next.Policies.Pipeline)
	for u, err := range units.StartEach(ctx, r.h.opts.toStart(after)) {
		if err != nil {
			r.notStarted(u, err, nil, next, c)
		}
	}
	var retried []unit.Runner
	for _, id := range c.Retried {
		retried = append(retried, next.Unit(id))
	}
	for u, err := range units.RestartEach(ctx, retried) {
		r.Restarted(ctx, u, err)
		if err != nil {
			c.Failed = append(c.Failed, u.Base().StartDiagnostic(err))
		}
	}
	slices.SortStableFunc(c.Failed, func(a, b protocol.Diagnostic) int { return cmp.Compare(a.Extension, b.Extension) })
	if len(c.Clients) > 0 {
		// logs its error; reads the file again, because the clients in force may be newer than this reload
		_ = r.h.clients.Reload()
	}
	r.h.swap(nil)
	return nil
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

// startPolicies starts the policy processes that are new in next. If one does not start, the whole reload fails.
func (r *reloads) startPolicies(ctx context.Context, now, next *snapshot.Plan) error {
	var fresh []unit.Runner
	for _, p := range next.Policies.Processes {
		if !now.Has(p) {
			fresh = append(fresh, p)
		}
	}
	var failed []error
	for u, err := range units.StartEach(ctx, r.h.opts.toStart(fresh)) {
		if err != nil {
			failed = append(failed,
				protocol.Errorf(protocol.ConfigInvalid, "policy %s does not start: %s", u.(*policies.Process).Name,
					protocol.Reason(err)))
		}
	}
	return errors.Join(failed...)
}

// notStarted reports that u did not start. It puts before, the running build that u was to replace, back into
// next.
func (r *reloads) notStarted(u unit.Runner, err error, before snapshot.Target, next *snapshot.Plan, c *status.Change) {
	id, d := u.Base().ID(), u.Base().StartDiagnostic(err)
	if before == nil {
		c.Failed = append(c.Failed, d)
	} else {
		next.Keep(before)
		isID := func(other string) bool { return other == id }
		c.Changed, c.Destinations = slices.DeleteFunc(c.Changed, isID), slices.DeleteFunc(c.Destinations, isID)
		c.Kept = append(c.Kept, status.KeptBuild{ID: id, Reason: d.Message, Evidence: protocol.EvidenceOf(err)})
		d.Hint = "the previous build runs; fix it and reload"
	}
	if protocol.KindOf(err) != protocol.ShuttingDown {
		r.h.diagnostics.Add(d)
	}
}

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

// started removes the diagnostics about earlier starts of a unit when an instance is ready. A diagnostic with a
// hint stays: it is about a newer build, and the ready instance belongs to the previous one.
func (r *reloads) started(id string, e supervisor.Event) {
	if e.Kind != supervisor.StateChanged || e.State != supervisor.Ready {
		return
	}
	r.h.diagnostics.Remove(func(d protocol.Diagnostic) bool {
		return d.Extension == id && d.Hint == "" && strings.HasPrefix(d.Message, unit.StartFailed)
	})
}

// Restarted reports the outcome of a restart of u.
func (r *reloads) Restarted(ctx context.Context, u unit.Runner, err error) {
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
	if units.Drain(r.h.life.closing, u, past) {
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
