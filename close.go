package exthost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
)

const (
	shutdownDeadline = 5 * time.Second         // of Close, whatever the extensions do
	closeDrain       = time.Second             // that Close leaves to calls in flight
	killAfter        = 4500 * time.Millisecond // from Close to the kill of slow children
)

// Close stops every extension and waits for them, at most 5 s: processes that still live
// then have been killed. It is idempotent. Calls in flight end with shutting_down or with
// their own outcome. The error names what has not ended in time.
func (h *Host) Close() error {
	var failed error
	h.life.closed.Do(func() { failed = h.shutdown() })
	return failed
}

func (h *Host) shutdown() error {
	h.life.close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownDeadline)
	defer cancel()
	lastResort := time.AfterFunc(killAfter, h.kill)
	defer lastResort.Stop()
	h.reloads.mu.Lock() // a reload that holds it is given up
	errs := h.stopUnits(ctx)
	h.closePipeline(ctx, h.snapshots.Load().Policies.Pipeline)
	h.life.stop()
	idle := h.life.beside.Close()
	h.gateway.Close()
	h.reloads.mu.Unlock() // a look of the watch may wait for it, and is given up
	h.hooks.commands.Close()
	select { // a notification runs the client's code, which may ignore the end of its ctx
	case <-idle:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("the host is still at work; a client may not have returned from what it was told: %w", ctx.Err()))
	}
	errs = append(errs, h.policies.Close(ctx))
	h.env.Containment.Close()
	h.feed.Close()
	h.journal.Close()
	h.env.Tap.Close()
	return errors.Join(errs...)
}

// stopUnits stops all units in parallel.
func (h *Host) stopUnits(ctx context.Context) []error {
	var wg sync.WaitGroup
	live := h.env.Registry.All()
	errs := make([]error, len(live))
	for n, u := range live {
		wg.Go(func() { errs[n] = u.Stop(ctx, closeDrain) })
	}
	wg.Wait()
	return errs
}

// closePipeline leaves policies as long as calls for the decisions that are due.
func (h *Host) closePipeline(ctx context.Context, p *governance.Pipeline) {
	ctx, cancel := context.WithTimeout(ctx, closeDrain)
	defer cancel()
	h.policies.ClosePipeline(ctx, p)
}

// kill ends every process of every unit at once.
func (h *Host) kill() {
	for _, u := range h.env.Registry.All() {
		u.Kill()
	}
}
