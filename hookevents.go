package exthost

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// sessionEndPatience bounds what the hooks of session_end may take together: the
// children of the session live until then.
const sessionEndPatience = 5 * time.Second

// tellSession runs the hooks of one end of s. Nobody waits for what they answer.
func (h *Host) tellSession(ctx context.Context, point hooks.Point, s *protocol.Session) {
	payload := json.RawMessage(`{"source":"startup"}`)
	if point == hooks.SessionEnd {
		payload = json.RawMessage(`{"reason":"other"}`)
	}
	e := hooks.Event{Point: point, Session: s.ID, Caller: s.Caller, Payload: payload}
	ctx = context.WithValue(ctx, sessionKeyOf{}, sessionKey(s))
	h.observe(ctx, &e)
}

// observe runs hooks of what has happened already: failures are logged, and there
// is nothing to refuse.
func (h *Host) observe(ctx context.Context, e *hooks.Event) {
	g := h.enter()
	defer g.leave()
	_, _ = g.hooks.Run(ctx, e)
}

// sessionBegan runs the hooks of session_start beside the session, whose end waits
// for them on the channel returned.
func (h *Host) sessionBegan(s *protocol.Session) <-chan struct{} {
	if s.ID == "" || !h.gen.Load().hooks.Has(hooks.SessionStart) {
		return nil
	}
	told := make(chan struct{})
	if !h.beside(func(ctx context.Context) { defer close(told); h.tellSession(ctx, hooks.SessionStart, s) }) {
		return nil
	}
	return told
}

// sessionEnded runs the hooks of session_end, after those of session_start.
func (h *Host) sessionEnded(s *protocol.Session, began <-chan struct{}) {
	if s.ID == "" || !h.gen.Load().hooks.Has(hooks.SessionEnd) {
		return
	}
	done := make(chan struct{})
	if !h.beside(func(ctx context.Context) {
		defer close(done)
		ctx, cancel := context.WithTimeout(ctx, sessionEndPatience)
		defer cancel()
		if began != nil {
			select {
			case <-began:
			case <-ctx.Done():
			}
		}
		h.tellSession(ctx, hooks.SessionEnd, s)
	}) {
		return
	}
	<-done
}

// beside runs f on a goroutine that Close ends and waits for. It reports whether
// the host is not closing.
func (h *Host) beside(f func(ctx context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sealed {
		return false
	}
	h.running.Go(func() { f(h.closing) })
	return true
}

// admit lets the hooks of extension_load decide whether x may start: those of the
// generation that has it, or while it is still on its way into one, those of first,
// that come with it.
func (h *Host) admit(ctx context.Context, x *extension, first *hooks.Set) error {
	set := first
	if g := h.gen.Load(); g.has(x) {
		set = g.hooks
	}
	if !set.Has(hooks.ExtensionLoad) {
		return nil
	}
	m := x.candidate.Manifest
	payload, err := json.Marshal(map[string]any{
		"id": x.candidate.ID, "version": m.Plugin.Version, "transport": m.Transport.Kind, "command": commandLine(m.Transport),
		"source": "extension", "file_path": x.candidate.Path,
	})
	if err != nil {
		return protocol.Errorf(protocol.Rejected, "its command is no text: %w", err)
	}
	_, err = set.Run(ctx, &hooks.Event{Point: hooks.ExtensionLoad, Extension: x.candidate.ID, Payload: payload})
	if protocol.KindOf(err) == protocol.Rejected {
		return errors.Join(err, supervisor.ErrPermanent)
	}
	return err
}

// stateEvents is how many changes of state may wait for their hooks.
const stateEvents = 256

// stateChanged queues a change for the hooks of extension_state.
func (h *Host) stateChanged(id string, s supervisor.Event) {
	g := h.gen.Load()
	if s.Kind != supervisor.StateChanged || g == nil || !g.hooks.Has(hooks.ExtensionState) {
		return
	}
	reason := ""
	if s.Err != nil {
		reason = h.redactor.String(message(s.Err))
	}
	said := "extension " + id + " is " + string(s.State)
	if reason != "" {
		said += ": " + reason
	}
	payload, err := json.Marshal(map[string]any{
		"extension": id, "instance": s.Key, "state": s.State, "attempt": s.Attempt, "reason": reason,
		"notification_type": "extension_state", "message": said,
	})
	if err != nil {
		return
	}
	select {
	case h.states <- hooks.Event{Point: hooks.ExtensionState, Extension: id, Payload: payload}:
	default:
		h.log.Warn("a change of state was not told to hooks, which are too slow", "extension", id, "state", string(s.State))
	}
}

// stateLoop runs the hooks of extension_state, one change after the other.
func (h *Host) stateLoop(ctx context.Context) {
	for {
		select {
		case e := <-h.states:
			h.observe(ctx, &e)
		case <-ctx.Done():
			return
		}
	}
}

// isReady reports whether x has an instance for everybody that can be called now.
func (x *extension) isReady() bool {
	return !x.options.Instances.PerSession() && slices.ContainsFunc(x.group.Status(), func(s supervisor.SlotStatus) bool { return s.State == supervisor.Ready })
}

// TestHooks is [Host.RunHooks] for an event that is not happening, of any point. The
// hooks really run, and may do what they do; their questions are put to nobody. e.Tool,
// where stated, is a registered name, which names the extension as well.
func (a Admin) TestHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	if entry, ok := a.h.Tools().Lookup(e.Tool); ok {
		e.Extension, e.OwnName = entry.Extension, entry.Tool
	}
	return a.h.runHooks(ctx, &e, (*hooks.Set).Test)
}
