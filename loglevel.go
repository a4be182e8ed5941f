package exthost

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Several sessions may want different levels of the log of one instance. It is told
// the most talkative of them, and each session hears what it wanted.

// metaLevel is how a request of the stateless era asks for log messages.
const metaLevel = "io.modelcontextprotocol/logLevel"

// levels are MCP's, the most talkative first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// level is the place of a level in levels, len(levels) for none.
func level(text json.RawMessage) int {
	name, _ := rawjson.Text(text)
	if at := slices.Index(levels, name); at >= 0 {
		return at
	}
	return len(levels)
}

// setLevel notes the level that a session wants and tells every extension that
// logs to it.
func (h *Host) setLevel(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	for _, x := range h.gen.Load().inOrder() {
		id := x.candidate.ID
		if !offers(x.handshake.Load(), "logging") {
			continue
		}
		one := *c
		one.Extension, one.Client = id, nil
		if _, err := h.Do(ctx, &one); err != nil {
			h.log.Debug("an extension was not told the log level", "extension", id, "error", err)
		}
	}
	return json.RawMessage("{}"), nil
}

// wants notes the log level that the call's session asks for, and returns false
// when the instance logs as much already.
func (r *routed) wants(i *instance, params json.RawMessage) (pass bool) {
	if r.call.Method != methodLevel {
		return true
	}
	at := level(rawjson.Get(params, "level"))
	if at == len(levels) {
		return true // the extension's to refuse
	}
	h := r.target.host
	if s := r.call.Session; s != nil {
		h.mu.Lock()
		if _, attached := h.sessions[s]; attached {
			h.levels[s] = at
		}
		h.mu.Unlock()
	}
	return i.louder(at) && i.Handshake().Era < protocol.MCP20260728
}

// louder reports whether at is more talkative than all that was asked of i.
func (i *instance) louder(at int) bool {
	h := i.extension.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if at >= i.level {
		return false
	}
	i.level = at
	return true
}

// leveled returns params as i has to be sent them for its caller to hear the log:
// a server of the newer era is told with each request, an older one beforehand.
func (r *routed) leveled(ctx context.Context, i *instance, params json.RawMessage) json.RawMessage {
	h, hs := r.target.host, i.Handshake()
	if hs == nil || !offers(hs, "logging") {
		return params
	}
	meta := rawjson.Get(params, "_meta")
	asked := level(rawjson.Get(meta, metaLevel))
	if hs.Era >= protocol.MCP20260728 {
		h.mu.Lock()
		at, ok := h.levels[r.call.Session]
		h.mu.Unlock()
		if ok && asked == len(levels) {
			params = rawjson.Set(params, "_meta", rawjson.Set(meta, metaLevel, quote(levels[at])))
		}
		return params
	}
	if asked < len(levels) && i.louder(asked) {
		i.setLevel(ctx, asked)
	}
	return params
}

func (i *instance) setLevel(ctx context.Context, at int) {
	_, err := i.Call(ctx, &runtime.Request{Method: methodLevel, Params: json.RawMessage(`{"level":"` + levels[at] + `"}`)})
	if err != nil {
		i.extension.log.Debug("it does not take a log level", "error", err)
	}
}

// hears reports whether the call's caller wants a log message.
func (r *routed) hears(params json.RawMessage) bool {
	if asked := level(rawjson.Get(rawjson.Get(r.call.Params, "_meta"), metaLevel)); asked < len(levels) {
		return level(rawjson.Get(params, "level")) >= asked
	}
	return r.target.host.hears(r.call.Session, params)
}

// hears reports whether a session wants a log message; one that did not say takes all.
func (h *Host) hears(s *protocol.Session, params json.RawMessage) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.levels[s]
	return !ok || level(rawjson.Get(params, "level")) >= at
}
