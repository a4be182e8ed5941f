package exthost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/recording/recorder"
)

const (
	shutdownDeadline = 5 * time.Second         // bounds Close, whatever the extensions do
	closeDrain       = time.Second             // for calls in flight
	killAfter        = 4500 * time.Millisecond // after the begin of Close: slow children are killed
)

// Close stops every extension and waits for them, at most 5 s; processes that still live by then have been
// killed. It is idempotent. Calls in flight end with shutting_down or with their own outcome. The error names
// what did not end in time.
func (h *Host) Close() (err error) {
	h.life.closed.Do(func() { err = h.shutdown() })
	return err
}

func (h *Host) shutdown() error {
	h.life.close()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownDeadline)
	defer cancel()
	lastResort := time.AfterFunc(killAfter, h.units.KillAll)
	defer lastResort.Stop()
	left := h.remote.Close(ctx, closeDrain)
	h.reloads.mu.Lock() // cancels a reload in progress, which holds it
	stopped := h.units.StopAll(ctx, closeDrain)
	h.policies.ClosePipeline(ctx, h.snapshots.Load().Policies.Pipeline)
	h.life.stop()
	idle := h.life.beside.Close()
	h.gateway.Sessions.Close()
	h.reloads.mu.Unlock() // the watch may wait for it, and is canceled
	h.hooks.commands.Close()
	var busy error
	select { // a notification runs the client's code, which may ignore its ctx
	case <-idle:
	case <-ctx.Done():
		busy = fmt.Errorf("the host is still at work; a client may not have returned from what it was told: %w",
			ctx.Err())
	}
	if !h.opts.Mode.Inspect { // lists that changed last are in no snapshot yet
		for _, d := range h.snapshots.Load().Policies.SavePins() {
			h.diagnostics.Write(d)
		}
	}
	err := errors.Join(left, stopped, busy, h.policies.Close(ctx))
	h.recording.Follow(recorder.Config{})
	h.env.Recorder.Close()
	h.env.Containment.Close()
	h.stats.feed.Close()
	h.journal.Close()
	h.env.Tap.Close()
	return err
}
