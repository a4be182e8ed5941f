package exthost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/policies"
	"github.com/exthost/exthost/internal/snapshot"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// apply starts the units that are new in next, puts next in force, and ends the units that
// are not in next.
func (h *Host) apply(ctx context.Context, next *snapshot.Plan, c *status.Change) error {
	now := h.snapshots.Load().Plan
	beside, after := h.prepare(now, next, c)
	h.env.Registry.Add(next.Units())
	if err := h.startPolicies(ctx, now, next); err != nil {
		h.retire(now)
		return err
	}
	for u, err := range h.startEach(ctx, beside) {
		if err != nil && ctx.Err() == nil {
			h.notStarted(u, err, now.Target(u.Base().ID()), next, c)
		}
	}
	if err := ctx.Err(); err != nil { // nothing has changed yet
		h.retire(now)
		return fmt.Errorf("the reload was given up: %w", err)
	}
	h.adopt(next)
	h.retire(next)
	h.retirePipeline(now.Policies.Pipeline, next.Policies.Pipeline)
	for u, err := range h.startEach(ctx, after) {
		if err != nil {
			h.notStarted(u, err, nil, next, c)
		}
	}
	for _, id := range c.Retried {
		u := next.Unit(id)
		if err := h.restart(ctx, u); err != nil {
			c.Failed = append(c.Failed, u.Base().StartDiagnostic(err))
		}
	}
	h.swap(nil)
	return nil
}

// prepare returns the new units that start beside the running ones, and those that start
// after the build before them has ended.
func (h *Host) prepare(now, next *snapshot.Plan, c *status.Change) (beside, after []unit.Runner) {
	for _, id := range slices.Concat(c.Added, c.Changed) {
		x, before := next.Extensions[id], now.Extensions[id]
		h.forgetStart(x)
		switch {
		case before == nil:
			beside = append(beside, x)
		case x.Options().Reload == manifest.ReloadStopFirst:
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
		h.forgetStart(d)
		if before != nil {
			d.Calls = before.Calls
		}
		beside = append(beside, d)
	}
	return beside, after
}

// startPolicies starts the processes of policies that now does not have. If one cannot
// decide, the reload fails as a whole.
func (h *Host) startPolicies(ctx context.Context, now, next *snapshot.Plan) error {
	var fresh []unit.Runner
	for _, p := range next.Policies.Processes {
		if !now.Has(p) {
			fresh = append(fresh, p)
		}
	}
	var failed []error
	for u, err := range h.startEach(ctx, fresh) {
		if err != nil {
			failed = append(failed, protocol.Errorf(protocol.ConfigInvalid, "policy %s does not start: %s", u.(*policies.Process).Name, protocol.Reason(err)))
		}
	}
	return errors.Join(failed...)
}

// notStarted reports that u did not start, and puts before, the build that u was to
// replace, back into next.
func (h *Host) notStarted(u unit.Runner, err error, before snapshot.Target, next *snapshot.Plan, c *status.Change) {
	id, d := u.Base().ID(), u.Base().StartDiagnostic(err)
	if before == nil {
		c.Failed = append(c.Failed, d)
	} else {
		next.Keep(before)
		isID := func(other string) bool { return other == id }
		c.Changed, c.Destinations = slices.DeleteFunc(c.Changed, isID), slices.DeleteFunc(c.Destinations, isID)
		c.Kept = append(c.Kept, status.KeptBuild{ID: id, Reason: d.Message, Evidence: protocol.EvidenceOf(err)})
		d.Hint = "the build before goes on; mend it and reload"
	}
	if protocol.KindOf(err) != protocol.ShuttingDown {
		h.diagnostics.Add(d)
	}
}

// forgetStart drops the diagnostics of an earlier start of u.
func (h *Host) forgetStart(u unit.Runner) {
	h.diagnostics.Remove(func(d protocol.Diagnostic) bool {
		return d.Extension == u.Base().ID() && strings.HasPrefix(d.Message, unit.StartFailed)
	})
}

// restart restarts u, and reports why it does not start.
func (h *Host) restart(ctx context.Context, u unit.Runner) error {
	err := u.Restart(ctx)
	switch {
	case err == nil:
		h.forgetStart(u)
		signal(h.life.rebuild)
	case ctx.Err() != nil:
	case protocol.KindOf(err) != protocol.ShuttingDown:
		h.forgetStart(u)
		h.diagnostics.Add(u.Base().StartDiagnostic(err))
	}
	return err
}

// retire ends every unit that is not in p.
func (h *Host) retire(p *snapshot.Plan) {
	past := h.snapshots.Past()
	for _, u := range h.env.Registry.All() {
		if !p.Has(u) && u.Base().Retire() {
			h.life.beside.Go(func() { h.end(u, past) })
		}
	}
}

// stopMargin is what a stop may take beyond drain_timeout and shutdown_grace before the
// processes are killed.
const stopMargin = 5 * time.Second

// end stops u once the calls that may be with it, those of past snapshots, have ended, at
// the latest after its drain_timeout.
func (h *Host) end(u unit.Runner, past []*snapshot.Snapshot) {
	base := u.Base()
	drained, cancel := context.WithTimeout(h.life.closing, base.Options().DrainTimeout)
	defer cancel()
	for _, s := range past {
		select {
		case <-s.Left():
		case <-drained.Done():
		}
	}
	deadline, _ := drained.Deadline()
	drain := max(0, time.Until(deadline))
	ctx, cancel := context.WithTimeout(h.life.closing, drain+base.Options().ShutdownGrace+stopMargin)
	defer cancel()
	if err := u.Stop(ctx, drain); err != nil && h.life.closing.Err() == nil {
		base.Log.Error("did not stop, and is killed", "error", err)
		u.Kill()
	}
	h.env.Registry.Remove(u)
	base.Stopped()
}

// retirePipeline closes a pipeline that was replaced, once the calls of past snapshots have
// ended. Its policies may be in the next pipeline too.
func (h *Host) retirePipeline(before, now *governance.Pipeline) {
	if before == now {
		return
	}
	past := h.snapshots.Past()
	h.life.beside.Go(func() {
		for _, s := range past {
			select {
			case <-s.Left():
			case <-h.life.closing.Done():
			}
		}
		h.closePipeline(context.Background(), before)
	})
}
