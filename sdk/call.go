package sdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// call is the context of a tool, hook or policy, and the request that it serves. The cancelable context is created
// on first use: few tools need one, and it costs as much as a small call.
type call struct {
	context.Context // of the connection
	extension       *Extension
	id, params      json.RawMessage

	mu     sync.Mutex
	own    context.Context // nil until first used
	cancel context.CancelFunc
	over   bool
}

type callKey struct{}

// Value implements [context.Context].
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.cancelable().Value(key)
}

// Done implements [context.Context].
func (c *call) Done() <-chan struct{} { return c.cancelable().Done() }

// Err implements [context.Context].
func (c *call) Err() error { return c.cancelable().Err() }

func (c *call) cancelable() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil {
		c.own, c.cancel = context.WithCancel(c.Context)
		if c.over {
			c.cancel()
		}
	}
	return c.own
}

// end cancels the call.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Progress reports done of total in any unit to the caller of ctx's tool call; total 0 is unknown. It also keeps a
// long call from timing out. It does nothing if the caller has not asked for progress.
func Progress(ctx context.Context, done, total float64, message string) {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return
	}
	token := rawjson.Get(rawjson.Get(c.params, "_meta"), protocol.MetaProgressToken)
	if token == nil {
		return
	}
	c.notify(ctx, protocol.MethodProgress, struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{token, done, total, message})
}

// Meta returns the host's description of the caller of ctx's tool call, an object with agent_id and session_id. It
// is nil unless the manifest has [context] passthrough = true.
func Meta(ctx context.Context) json.RawMessage {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return nil
	}
	return rawjson.Get(rawjson.Get(c.params, "arguments"), "_meta")
}

// Log sends a message to the caller of ctx's tool call. Use stderr for messages to the operator.
func Log(ctx context.Context, level slog.Level, message string) {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return
	}
	c.notify(ctx, protocol.MethodMessage, struct {
		Level string          `json:"level"`
		Data  string          `json:"data"`
		Meta  json.RawMessage `json:"_meta,omitempty"`
	}{levelName(level), message, rawjson.Get(c.params, "_meta")})
}

func (c *call) notify(ctx context.Context, method string, params any) {
	data, err := json.Marshal(params)
	if err != nil {
		return // such as a NaN in progress
	}
	_ = c.extension.conn.Notify(ctx, method, data) // fails only with the connection, which also ends the call
}

// levelName returns MCP's name of a level.
func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warning"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}
