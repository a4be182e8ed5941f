package exthost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// apply starts what is new in next, makes next what the host runs, and ends what
// is no longer there.
func (h *Host) apply(ctx context.Context, next *roster, c *Change) error {
	now := h.gen.Load().roster
	var beside, after []*extension // what runs now
	for _, id := range slices.Concat(c.Added, c.Changed) {
		x, before := next.extensions[id], now.extensions[id]
		h.forget(x)
		if before != nil {
			x.calls = before.calls
		}
		if before != nil && x.options.Reload == manifest.ReloadStopFirst {
			x.follow(before)
			after = append(after, x)
		} else {
			beside = append(beside, x)
		}
	}
	for _, name := range c.Destinations {
		if x, before := next.bridged[name], now.bridged[name]; x != nil {
			h.forget(x)
			if before != nil {
				x.calls = before.calls
			}
			beside = append(beside, x)
		}
	}
	h.enlist(next)
	if err := h.startOfficers(ctx, now, next); err != nil {
		h.retire(now)
		return err
	}
	for x, err := range h.startEach(ctx, beside) {
		if err != nil && ctx.Err() == nil {
			h.notStarted(x, err, now.target(x.candidate.ID), next, c)
		}
	}
	if err := ctx.Err(); err != nil { // nothing has happened yet
		h.retire(now)
		return fmt.Errorf("the reload was given up: %w", err)
	}
	h.adopt(next)
	h.retire(next)
	h.retirePipeline(now.policy, next.policy)
	for x, err := range h.startEach(ctx, after) {
		if err != nil {
			h.notStarted(x, err, nil, next, c)
		}
	}
	for _, id := range c.Retried {
		if err := h.restart(ctx, next.target(id)); err != nil {
			c.Failed = append(c.Failed, startDiagnostic(next.target(id), err))
		}
	}
	h.rebuild()
	return nil
}

// startOfficers starts the processes of policies that now does not have. A policy
// that cannot decide is no policy, so that one failure spoils all.
func (h *Host) startOfficers(ctx context.Context, now, next *roster) error {
	fresh := slices.DeleteFunc(slices.Clone(next.officers), now.has)
	var failed []error
	for x, err := range h.startEach(ctx, fresh) {
		if err != nil {
			failed = append(failed, protocol.Errorf(protocol.ConfigInvalid, "policy %s does not start: %s", x.policy.Name, message(err)))
		}
	}
	return errors.Join(failed...)
}

// notStarted reports that x did not start, and puts what it was to replace back
// into next.
func (h *Host) notStarted(x *extension, err error, before *extension, next *roster, c *Change) {
	id, d := x.candidate.ID, startDiagnostic(x, err)
	if before == nil {
		c.Failed = append(c.Failed, d)
	} else {
		next.keep(before)
		c.Changed = slices.DeleteFunc(c.Changed, func(other string) bool { return other == id })
		c.Destinations = slices.DeleteFunc(c.Destinations, func(other string) bool { return other == id })
		c.Kept = append(c.Kept, KeptBuild{id, d.Message})
		d.Hint = "the build before goes on; mend it and reload"
	}
	if protocol.KindOf(err) != protocol.ShuttingDown {
		h.report(d)
	}
}

// follow makes x start only once before has stopped, and offer what before
// offered until then.
func (x *extension) follow(before *extension) {
	x.after = before.stopped
	x.handshake.Store(before.handshake.Load())
}

// stopMargin is what a stop may take beyond the time that the extension's calls
// and its shutdown_grace are given, before its processes are killed.
const stopMargin = 5 * time.Second

// retire ends every extension that r does not have.
func (h *Host) retire(r *roster) {
	h.rebuilding.Lock()
	past := slices.Clone(h.past)
	h.rebuilding.Unlock()
	for _, x := range h.alive() {
		if x.retired || r.has(x) {
			continue
		}
		x.retired = true
		h.running.Go(func() { h.end(x, past) })
	}
}

// retirePipeline closes a pipeline that was replaced, once the exchanges of past
// generations have ended. Its policies may be those of the next.
func (h *Host) retirePipeline(before, now *governance.Pipeline) {
	if before == now {
		return
	}
	h.rebuilding.Lock()
	past := slices.Clone(h.past)
	h.rebuilding.Unlock()
	h.running.Go(func() {
		for _, g := range past {
			select {
			case <-g.left:
			case <-h.closing.Done():
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), hostDrain)
		defer cancel()
		h.closePolicy(ctx, before)
	})
}

// end stops x once the exchanges that may be with it, those of past generations,
// have ended, at the latest after its drain_timeout.
func (h *Host) end(x *extension, past []*generation) {
	o := x.options
	drained, cancel := context.WithTimeout(h.closing, o.DrainTimeout)
	defer cancel()
	for _, g := range past {
		select {
		case <-g.left:
		case <-drained.Done():
		}
	}
	deadline, _ := drained.Deadline()
	drain := max(0, time.Until(deadline))
	ctx, cancel := context.WithTimeout(h.closing, drain+o.ShutdownGrace+stopMargin)
	defer cancel()
	if err := x.stop(ctx, drain); err != nil && h.closing.Err() == nil {
		x.log.Error("did not stop, and is killed", "error", err)
		x.kill()
	}
	h.mu.Lock()
	delete(h.live, x)
	h.mu.Unlock()
	h.keepSecrets()
	close(x.stopped)
}
