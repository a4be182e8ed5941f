package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// HookEvents runs hooks of events outside of calls: sessions, starts and states of extensions.
type HookEvents struct {
	snapshots *snapshot.Store
	log       *slog.Logger
	redactor  *redact.Redactor
	beside    *concurrent.Gate
	closing   context.Context
	states    chan hooks.Event // queued for hooks of extension_state
}

// stateEvents bounds the queued changes of state.
const stateEvents = 256

// NewHookEvents returns the events of a host. Hooks of sessions run as work of beside, and are cancelled when closing
// ends.
func NewHookEvents(closing context.Context, s *snapshot.Store, beside *concurrent.Gate, env *unit.Env) *HookEvents {
	return &HookEvents{
		snapshots: s,
		log:       env.Log,
		redactor:  env.Redactor,
		beside:    beside,
		closing:   closing,
		states:    make(chan hooks.Event, stateEvents),
	}
}

// run runs the hooks of an event that has already happened. Failures are logged; the hooks cannot refuse the event.
func (h *HookEvents) run(ctx context.Context, e *hooks.Event) {
	s := h.snapshots.Enter()
	defer s.Leave()
	_, _ = s.Hooks.Run(ctx, e)
}

func (h *HookEvents) runSession(ctx context.Context, point hooks.Point, s *protocol.Session) {
	payload := json.RawMessage(`{"source":"startup"}`)
	if point == hooks.SessionEnd {
		payload = json.RawMessage(`{"reason":"other"}`)
	}
	ctx = context.WithValue(ctx, instanceKey{}, unit.SessionKey(s))
	h.run(ctx, &hooks.Event{Point: point, Session: s.ID, Caller: s.Caller, Node: s.Node, Payload: payload})
}

// SessionBegan runs the hooks of session_start concurrently. The channel is closed when they have ended; it is
// nil if there are none.
func (h *HookEvents) SessionBegan(s *protocol.Session) <-chan struct{} {
	if s.ID == "" || !h.snapshots.Load().Hooks.Has(hooks.SessionStart) {
		return nil
	}
	done := make(chan struct{})
	if !h.beside.Go(func() { defer close(done); h.runSession(h.closing, hooks.SessionStart, s) }) {
		return nil
	}
	return done
}

// sessionEndTimeout bounds the hooks of session_end together. The instances of the session live until these hooks
// have ended.
const sessionEndTimeout = 5 * time.Second

// SessionEnded waits until began is closed, after the hooks of session_start, then runs those of session_end and
// waits for them.
func (h *HookEvents) SessionEnded(s *protocol.Session, began <-chan struct{}) {
	if s.ID == "" || !h.snapshots.Load().Hooks.Has(hooks.SessionEnd) || !h.beside.Enter() {
		return
	}
	defer h.beside.Leave()
	ctx, cancel := context.WithTimeout(h.closing, sessionEndTimeout)
	defer cancel()
	if began != nil {
		select {
		case <-began:
		case <-ctx.Done():
		}
	}
	h.runSession(ctx, hooks.SessionEnd, s)
}

// Admit lets the hooks of extension_load decide whether x may start: those of the current snapshot, or first if x is
// not in a snapshot yet.
func (h *HookEvents) Admit(ctx context.Context, x *unit.Extension, first *hooks.Set) error {
	set := first
	if s := h.snapshots.Load(); s != nil && s.Has(x) {
		set = s.Hooks
	}
	if !set.Has(hooks.ExtensionLoad) {
		return nil
	}
	m := x.Candidate.Manifest
	payload, err := json.Marshal(map[string]any{
		"id": x.ID(), "version": m.Plugin.Version, "transport": m.Transport.Kind, "command": m.Transport.CommandLine(),
		"source": "extension", "file_path": x.Candidate.Path,
	})
	if err != nil {
		return protocol.Errorf(protocol.Rejected, "its command is no text: %w", err)
	}
	_, err = set.Run(ctx, &hooks.Event{Point: hooks.ExtensionLoad, Extension: x.ID(), Payload: payload})
	if protocol.KindOf(err) == protocol.Rejected {
		return errors.Join(err, supervisor.ErrPermanent)
	}
	return err
}

// StateChanged queues a change of state for the hooks of extension_state. It does not block: a change is dropped
// when the queue is full.
func (h *HookEvents) StateChanged(id string, e supervisor.Event) {
	s := h.snapshots.Load()
	if e.Kind != supervisor.StateChanged || s == nil || !s.Hooks.Has(hooks.ExtensionState) {
		return
	}
	reason := ""
	if e.Err != nil {
		reason = h.redactor.String(protocol.Reason(e.Err))
	}
	message := "extension " + id + " is " + string(e.State)
	if reason != "" {
		message += ": " + reason
	}
	payload, err := json.Marshal(map[string]any{
		"extension": id, "instance": e.Key, "state": e.State, "attempt": e.Attempt, "reason": reason,
		"notification_type": "extension_state", "message": message,
	})
	if err != nil {
		return
	}
	select {
	case h.states <- hooks.Event{Point: hooks.ExtensionState, Extension: id, Payload: payload}:
	default:
		h.log.Warn("a change of state was not sent to hooks, because they are too slow", "extension", id, "state",
			string(e.State))
	}
}

// Run runs the hooks of extension_state, one change after another, until ctx ends.
func (h *HookEvents) Run(ctx context.Context) {
	for {
		select {
		case e := <-h.states:
			h.run(ctx, &e)
		case <-ctx.Done():
			return
		}
	}
}
