package gateway

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/dispatch"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Several sessions may want different log levels of one instance. The instance is asked
// for the lowest of them, and each session gets the messages from its own level on.

// logLevels are MCP's log levels, the lowest first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOf returns the index of a level in logLevels, len(logLevels) for none.
func levelOf(text json.RawMessage) int {
	name, _ := rawjson.Text(text)
	if at := slices.Index(logLevels, name); at >= 0 {
		return at
	}
	return len(logLevels)
}

// setLogLevels carries logging/setLevel of a client of all extensions to every extension
// that logs.
func (g *Gateway) setLogLevels(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	for x := range g.o.Snapshots.Load().Ordered {
		if !offers(x.Handshake(), "logging") {
			continue
		}
		one := *c
		one.Extension, one.Client = x.ID(), nil
		if _, err := g.Calls.Do(ctx, &one); err != nil {
			g.o.Log.Debug("an extension was not told the log level", "extension", x.ID(), "error", err)
		}
	}
	return json.RawMessage("{}"), nil
}

// LogLevels is the [dispatch.Stage] that brings the log level of the caller to the
// instance: a modern server is told with each request, a legacy one beforehand.
func (g *Gateway) LogLevels(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		if c.Request.Method == protocol.MethodSetLevel && !g.passesLevel(c, params) {
			return json.RawMessage("{}"), nil
		}
		return next(ctx, c, g.withLogLevel(ctx, c, params))
	}
}

// passesLevel keeps the level that a session asks for, and reports whether the instance is
// to be asked for it too.
func (g *Gateway) passesLevel(c *dispatch.Call, params json.RawMessage) bool {
	at := levelOf(rawjson.Get(params, "level"))
	if at == len(logLevels) {
		return true // the extension refuses it
	}
	if s := c.Request.Session; s != nil {
		g.mu.Lock()
		if _, attached := g.sessions[s]; attached {
			g.logLevels[s] = at
		}
		g.mu.Unlock()
	}
	return c.Instance.LowerLogLevel(at) && protocol.EraOf(c.Instance.Handshake().Era) != protocol.EraModern
}

// withLogLevel returns params with the level of the caller's session for a modern server,
// and asks a legacy server for the level in params.
func (g *Gateway) withLogLevel(ctx context.Context, c *dispatch.Call, params json.RawMessage) json.RawMessage {
	hs := c.Instance.Handshake()
	if hs == nil || !offers(hs, "logging") {
		return params
	}
	meta := rawjson.Get(params, "_meta")
	asked := levelOf(rawjson.Get(meta, protocol.MetaLogLevel))
	if protocol.EraOf(hs.Era) == protocol.EraModern {
		g.mu.Lock()
		at, ok := g.logLevels[c.Request.Session]
		g.mu.Unlock()
		if ok && asked == len(logLevels) {
			params = rawjson.Set(params, "_meta", rawjson.Set(meta, protocol.MetaLogLevel, rawjson.Quote(logLevels[at])))
		}
		return params
	}
	if asked < len(logLevels) && c.Instance.LowerLogLevel(asked) {
		setLevel(ctx, c.Instance, asked)
	}
	return params
}

func setLevel(ctx context.Context, i *unit.Instance, at int) {
	_, err := i.Call(ctx, &runtime.Request{Method: protocol.MethodSetLevel, Params: json.RawMessage(`{"level":"` + logLevels[at] + `"}`)})
	if err != nil {
		i.Unit.Log.Debug("it does not take a log level", "error", err)
	}
}

// acceptsLog reports whether the caller of c wants a log message.
func (g *Gateway) acceptsLog(c *dispatch.Call, message json.RawMessage) bool {
	if asked := levelOf(rawjson.Get(rawjson.Get(c.Request.Params, "_meta"), protocol.MetaLogLevel)); asked < len(logLevels) {
		return levelOf(rawjson.Get(message, "level")) >= asked
	}
	return g.sessionAcceptsLog(c.Request.Session, message)
}

// sessionAcceptsLog reports whether a session wants a log message. A session that set no
// level wants all.
func (g *Gateway) sessionAcceptsLog(s *protocol.Session, message json.RawMessage) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.logLevels[s]
	return !ok || levelOf(rawjson.Get(message, "level")) >= at
}
