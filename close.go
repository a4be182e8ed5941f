package exthost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
)

// shutdownDeadline bounds Close, whatever the extensions do.
const shutdownDeadline = 5 * time.Second

// Close stops every extension and waits for them, at most 5 s: what still lives
// then has been killed. It is idempotent; calls in flight end with shutting_down
// or their own outcome. The error says what has not ended in time.
func (h *Host) Close() error {
	var failed error
	h.stopping.Do(func() {
		h.close()
		ctx, cancel := context.WithTimeout(context.Background(), shutdownDeadline)
		defer cancel()
		lastResort := time.AfterFunc(killAfter, h.kill)
		defer lastResort.Stop()
		h.reloading.Lock() // which a reload gives up when it notices
		var wg sync.WaitGroup
		live := h.alive()
		errs := make([]error, len(live))
		for i, x := range live {
			wg.Go(func() { errs[i] = x.stop(ctx, hostDrain) })
		}
		wg.Wait()
		h.closePolicy(ctx, h.gen.Load().policy)
		h.stop()
		h.seal()
		h.reloading.Unlock() // the watch may be at it, and gives up now
		h.runner.Close()
		failed = errors.Join(append(errs, h.settle(ctx), h.oversight.close(ctx))...)
		h.containment.Close()
		h.feed.Close()
		h.journal.Close()
		h.tap.Close()
	})
	return failed
}

// closePolicy leaves what policies still have to decide as long as calls.
func (h *Host) closePolicy(ctx context.Context, p *governance.Pipeline) {
	ctx, cancel := context.WithTimeout(ctx, hostDrain)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		h.log.Warn("policies were still deciding when the host closed", "error", err)
	}
}

// seal lets nothing more run beside the host: no session that ends from now on is
// acted upon.
func (h *Host) seal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sealed = true
	for _, a := range h.sessions {
		h.detach(a)
	}
	clear(h.sessions)
}

// settle waits for the goroutines of the host itself. One that tells a client
// something runs the client's code, which may not care that its ctx has ended.
func (h *Host) settle(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); h.running.Wait() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the host is still at work; a client may not have returned from what it was told: %w", ctx.Err())
	}
}

const (
	hostDrain = time.Second             // what Close leaves to calls in flight
	killAfter = 4500 * time.Millisecond // when Close loses its patience with slow children
)

// kill ends every process of every extension at once.
func (h *Host) kill() {
	for _, x := range h.alive() {
		x.kill()
	}
}

// alive returns every extension that may have a process, of this generation or
// of an earlier one.
func (h *Host) alive() []*extension {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.live))
}
