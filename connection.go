package exthost

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// struck notes, once for each instance of a destination, that it has failed: a call
// may know before its run is over. began says that it could be called before.
func (x *extension) struck(i *instance, began bool, err error) {
	if x.bridge == nil {
		return
	}
	i.strike.Do(func() {
		key := starts
		if began {
			key = i.key
		}
		x.bridge.fuses.failed(time.Now(), key, err)
	})
}

// bridged takes what an instance of a destination offers. Its session is told when
// that is no longer what it was; the next connection finds a process that waits.
func (x *extension) bridged(i *instance, announced bool) {
	h := x.host
	x.handshake.Store(i.Handshake())
	x.bridge.learn(i.Handshake().Tools)
	h.gen.Load().pin(x, i.Handshake().Tools)
	h.offersChanged()
	if !announced {
		h.running.Go(func() { x.refill(h.closing) })
		return
	}
	for _, s := range h.audience(i, protocol.MethodToolsListChanged, nil) {
		h.running.Go(func() {
			ctx, cancel := context.WithTimeout(h.closing, listChangedTimeout)
			defer cancel()
			if _, err := h.say(ctx, x, s, protocol.MethodToolsListChanged, nil, true); err != nil {
				x.log.Debug("a client was not told of the new tool list", "session", s.ID, "error", err)
			}
		})
	}
}

// refill has another process wait for the next connection.
func (x *extension) refill(ctx context.Context) {
	if err := x.bridge.standby.Fill(ctx); err != nil && ctx.Err() == nil {
		x.log.Warn("no process could be kept ready for the next connection", "reason", message(err))
	}
}

// logConnection says what became of the instance of a connection: one record for
// each start, stop, crash and restart.
func (x *extension) logConnection(log *slog.Logger, e supervisor.Event) {
	ctx := context.Background()
	switch e.State {
	case supervisor.Ready:
		what := "started"
		if e.Attempt > 0 {
			what = "restarted"
		}
		log.LogAttrs(ctx, slog.LevelInfo, what, slog.Int("attempt", e.Attempt))
	case supervisor.Restarting:
		attrs := []slog.Attr{slog.String("reason", message(e.Err)), slog.Int("attempt", e.Attempt), slog.Time("due", e.Next)}
		if cause, ok := errors.AsType[*protocol.Error](e.Err); ok {
			attrs = append(attrs, slog.String("kind", string(cause.Kind)))
			if ev := cause.Evidence; ev != nil && ev.Signal != "" {
				attrs = append(attrs, slog.String("signal", ev.Signal))
			} else if ev != nil && ev.ExitCode != nil {
				attrs = append(attrs, slog.Int("exit_code", *ev.ExitCode))
			}
		}
		log.LogAttrs(ctx, slog.LevelWarn, "crashed", attrs...)
	case supervisor.Shutdown, supervisor.Idle:
		log.LogAttrs(ctx, slog.LevelInfo, "stopped")
	case supervisor.Failed:
		log.LogAttrs(ctx, slog.LevelError, "failed", slog.String("reason", message(e.Err)))
	default:
		log.LogAttrs(ctx, slog.LevelDebug, string(e.State))
	}
}
