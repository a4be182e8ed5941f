package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

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

// LogLevels are the log levels that sessions asked for.
type LogLevels struct {
	sessions *Sessions

	mu    sync.Mutex                // guards level
	level map[*protocol.Session]int // as indexes of logLevels
}

func newLogLevels(s *Sessions) *LogLevels {
	return &LogLevels{sessions: s, level: make(map[*protocol.Session]int)}
}

func (l *LogLevels) drop(s *protocol.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.level, s)
}

func (l *LogLevels) of(s *protocol.Session) (level int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	level, ok = l.level[s]
	return level, ok
}

// Lowest is the [dispatch.Stage] that brings the log level of the caller to the
// instance: a modern server is told with each request, a legacy one beforehand.
func (l *LogLevels) Lowest(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		if c.Request.Method == protocol.MethodSetLevel && !l.passes(c, params) {
			return json.RawMessage("{}"), nil
		}
		return next(ctx, c, l.withLevel(ctx, c, params))
	}
}

// passes keeps the level that a session asks for, and reports whether the instance is
// to be asked for it too.
func (l *LogLevels) passes(c *dispatch.Call, params json.RawMessage) bool {
	at := levelOf(rawjson.Get(params, "level"))
	if at == len(logLevels) {
		return true // the extension refuses it
	}
	if s := c.Request.Session; s != nil {
		l.sessions.IfAttached(s, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.level[s] = at
		})
	}
	return c.Instance.LowerLogLevel(at) && !protocol.IsModern(c.Instance.Handshake().ProtocolVersion)
}

// withLevel returns params with the level of the caller's session for a modern server,
// and asks a legacy server for the level in params.
func (l *LogLevels) withLevel(ctx context.Context, c *dispatch.Call, params json.RawMessage) json.RawMessage {
	hs := c.Instance.Handshake()
	if hs == nil || !offers(hs, "logging") {
		return params
	}
	meta := rawjson.Get(params, "_meta")
	asked := levelOf(rawjson.Get(meta, protocol.MetaLogLevel))
	if protocol.IsModern(hs.ProtocolVersion) {
		if at, ok := l.of(c.Request.Session); ok && asked == len(logLevels) {
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
		i.Unit.Log.Debug("the extension does not accept a log level", "error", err)
	}
}

// callAccepts reports whether the caller of c wants a log message.
func (l *LogLevels) callAccepts(c *dispatch.Call, message json.RawMessage) bool {
	if asked := levelOf(rawjson.Get(rawjson.Get(c.Request.Params, "_meta"), protocol.MetaLogLevel)); asked < len(logLevels) {
		return levelOf(rawjson.Get(message, "level")) >= asked
	}
	return l.accepts(c.Request.Session, message)
}

// accepts reports whether a session wants a log message. A session that set no level wants
// all.
func (l *LogLevels) accepts(s *protocol.Session, message json.RawMessage) bool {
	at, ok := l.of(s)
	return !ok || levelOf(rawjson.Get(message, "level")) >= at
}

// resume asks a new legacy instance for the lowest level that its sessions want.
func (l *LogLevels) resume(ctx context.Context, i *unit.Instance) {
	lowest := len(logLevels)
	l.mu.Lock()
	for s, at := range l.level {
		if (s.Extension == "" || s.Extension == i.Unit.ID()) && protocol.IsLegacy(s.Version) && concerns(i, s) {
			lowest = min(lowest, at)
		}
	}
	l.mu.Unlock()
	if hs := i.Handshake(); lowest < len(logLevels) && offers(hs, "logging") && !protocol.IsModern(hs.ProtocolVersion) && i.LowerLogLevel(lowest) {
		setLevel(ctx, i, lowest)
	}
}
