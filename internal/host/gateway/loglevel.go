package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Sessions may want different log levels of one instance. The instance is set to the lowest, and each session
// receives the messages from its own level on.

// logLevels are MCP's log levels, the lowest first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOf returns the index of a level in logLevels, [unit.NoLogLevel] for none.
func levelOf(text json.RawMessage) int {
	name, _ := rawjson.Text(text)
	if at := slices.Index(logLevels, name); at >= 0 {
		return at
	}
	return unit.NoLogLevel
}

// askedLevel returns the index of the level in params of logging/setLevel.
func askedLevel(params json.RawMessage) (level int, err error) {
	if level = levelOf(rawjson.Get(params, "level")); level == unit.NoLogLevel {
		return level, protocol.Errorf(protocol.InvalidArguments, "level must be one of %s",
			strings.Join(logLevels, ", "))
	}
	return level, nil
}

// LogLevels are the log levels that sessions have set.
type LogLevels struct {
	sessions *Sessions

	mu    sync.Mutex                // guards level
	level map[*protocol.Session]int // indexes of logLevels
}

func newLogLevels(s *Sessions) *LogLevels {
	return &LogLevels{sessions: s, level: make(map[*protocol.Session]int)}
}

// drop removes the level of an ended session, and reports whether it had one.
func (l *LogLevels) drop(s *protocol.Session) (had bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, had = l.level[s]
	delete(l.level, s)
	return had
}

func (l *LogLevels) of(s *protocol.Session) (level int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	level, ok = l.level[s]
	return level, ok
}

// LowerLogLevel is the [dispatch.Stage] that sets the instance's log level for the caller: for a modern server in
// each request, for a legacy server before the request.
func (l *LogLevels) LowerLogLevel(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		if c.Request.Method != protocol.MethodSetLevel {
			return next(ctx, c, l.withLevel(ctx, c, params))
		}
		asked, err := askedLevel(params)
		if err != nil {
			return nil, err
		}
		s := c.Request.Session
		kept := s != nil && l.sessions.IfAttached(s, func() { l.keep(s, asked) })
		result := json.RawMessage("{}")
		if protocol.IsModern(c.Instance.Handshake().ProtocolVersion) {
			return result, nil
		}
		err = c.Instance.SetLogLevel(ctx, func() int {
			if kept && protocol.IsLegacy(s.Version) { // a modern client states its level with each request
				return l.lowest(c.Instance)
			}
			return min(asked, l.lowest(c.Instance))
		}, func(level int) (err error) {
			if level != asked {
				params = rawjson.Set(params, "level", rawjson.Quote(logLevels[level]))
			}
			result, err = next(ctx, c, params)
			return err
		})
		if err != nil {
			return nil, err
		}
		return result, nil
	}
}

func (l *LogLevels) keep(s *protocol.Session, level int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level[s] = level
}

// lowest returns the lowest level of the sessions of i, [unit.NoLogLevel] if none has set one.
func (l *LogLevels) lowest(i *unit.Instance) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	level := unit.NoLogLevel
	for s, at := range l.level {
		if (s.Extension == "" || s.Extension == i.Unit.ID()) && protocol.IsLegacy(s.Version) && concerns(i, s) {
			level = min(level, at)
		}
	}
	return level
}

// withLevel adds the session's level to params for a modern server. A legacy server that logs only above the level in
// params is first set to that level.
func (l *LogLevels) withLevel(ctx context.Context, c *dispatch.Call, params json.RawMessage) json.RawMessage {
	hs := c.Instance.Handshake()
	if hs == nil || !hasCapability(hs, "logging") {
		return params
	}
	meta := rawjson.Get(params, "_meta")
	asked := levelOf(rawjson.Get(meta, protocol.MetaLogLevel))
	if protocol.IsModern(hs.ProtocolVersion) {
		if at, ok := l.of(c.Request.Session); ok && asked == unit.NoLogLevel {
			params = rawjson.Set(params, "_meta",
				rawjson.Set(meta, protocol.MetaLogLevel, rawjson.Quote(logLevels[at])))
		}
		return params
	}
	if asked < c.Instance.AskedLogLevel() { // the instance stays at this level until a session changes its own level
		setLevel(ctx, c.Instance, func() int { return min(asked, c.Instance.LogLevel(), l.lowest(c.Instance)) })
	}
	return params
}

// setLevel sets the log level of a legacy instance to the result of wanted. It does nothing without the capability.
func setLevel(ctx context.Context, i *unit.Instance, wanted func() int) {
	hs := i.Handshake()
	if hs == nil || !hasCapability(hs, "logging") || protocol.IsModern(hs.ProtocolVersion) {
		return
	}
	err := i.SetLogLevel(ctx, wanted, func(level int) error {
		_, err := i.Call(ctx, &runtime.Request{
			Method: protocol.MethodSetLevel,
			Params: json.RawMessage(`{"level":"` + logLevels[level] + `"}`),
		})
		return err
	})
	if err != nil {
		i.Unit.Log.Debug("the extension does not accept a log level", "error", err)
	}
}

// callAccepts reports whether the caller of c wants a log message.
func (l *LogLevels) callAccepts(c *dispatch.Call, message json.RawMessage) bool {
	if asked := levelOf(rawjson.Get(rawjson.Get(c.Request.Params, "_meta"), protocol.MetaLogLevel)); asked !=
		unit.NoLogLevel {
		return levelOf(rawjson.Get(message, "level")) >= asked
	}
	return l.accepts(c.Request.Session, message)
}

// accepts reports whether a session wants a log message. A session without a level wants all.
func (l *LogLevels) accepts(s *protocol.Session, message json.RawMessage) bool {
	at, ok := l.of(s)
	return !ok || levelOf(rawjson.Get(message, "level")) >= at
}

// resume sets an instance to the lowest level of its sessions: after the instance's start, or after one of the
// sessions has ended.
func (l *LogLevels) resume(ctx context.Context, i *unit.Instance) {
	setLevel(ctx, i, func() int { return l.lowest(i) })
}
