package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// converse returns the child that most probes share, a new one when the last
// has died.
func (s *subject) converse(ctx context.Context) (*wire, error) {
	if s.talk != nil && !s.talk.dead() {
		return s.talk, nil
	}
	s.close()
	w, err := s.greet(ctx)
	if err != nil {
		return nil, err
	}
	s.talk = w
	return w, nil
}

// close ends the shared child.
func (s *subject) close() {
	if s.talk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.talk.end(ctx)
	s.talk = nil
}

// greet starts a child and conducts its handshake.
func (s *subject) greet(ctx context.Context) (*wire, error) {
	w, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	switch s.speaks {
	case manifest.ProtocolNative:
		err = w.initialize(ctx)
	case manifest.ProtocolMCP:
		err = w.initializeMCP(ctx)
	}
	w.took = time.Since(began)
	w.mu.Lock()
	for _, l := range w.lapses {
		w.early = append(w.early, l.text)
	}
	w.mu.Unlock()
	if err != nil {
		w.end(ctx)
		return nil, err
	}
	return w, nil
}

// initialize is the native handshake, with id 0 as the host sends it.
func (w *wire) initialize(ctx context.Context) error {
	spec := &w.subject.spec
	params, err := json.Marshal(protocol.InitializeParams{
		AgentVersion: spec.HostVersion, ExtensionID: spec.ID, ProtocolVersion: protocol.Version,
		Capabilities: orEmpty(spec.Capabilities), Config: orEmpty(spec.Config), StateDir: spec.StateDir,
	})
	if err != nil {
		return err
	}
	return w.open(ctx, w.request("0", protocol.MethodInitialize, string(params)), "0")
}

// initializeMCP opens a session, or finds a server that has none.
func (w *wire) initializeMCP(ctx context.Context) error {
	const client = `{"name":"exthost","version":"0"}`
	id := w.newID()
	err := w.open(ctx, w.request(id, protocol.MethodInitialize,
		fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":%s}`, protocol.MCP20251125, client)), id)
	if err == nil {
		return w.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, protocol.MethodInitialized))
	}
	if w.dead() {
		return err
	}
	w.meta = fmt.Sprintf(`{%q:%q,%q:%s,%q:{}}`, protocol.MetaProtocolVersion, protocol.MCP20260728,
		protocol.MetaClientInfo, client, protocol.MetaClientCapabilities)
	id = w.newID()
	return w.open(ctx, w.request(id, protocol.MethodDiscover, "{}"), id)
}

func (w *wire) open(ctx context.Context, line, id string) error {
	answer := w.expect(id)
	if err := w.write(line); err != nil {
		return err
	}
	m, err := w.awaitFor(ctx, cmp.Or(w.subject.spec.Options.StartTimeout, patience), answer, "the handshake")
	if err != nil {
		return err
	}
	if e := rpcError(m); e != nil {
		return fmt.Errorf("it refuses the handshake: %s (%d)", e.Message, e.Code)
	}
	w.opening = m.Result
	return nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}

// grace is how long it may take to end by itself. That of lite is its call
// timeout, which nobody wants to wait for here.
func (s *subject) grace() time.Duration { return min(s.spec.Options.ShutdownGrace, patience) }

// callLine is the line of a call, in whichever protocol.
func (w *wire) callLine(id string, c *fixtureCall, meta string) string {
	if w.subject.speaks != manifest.ProtocolLite {
		return w.request(id, protocol.MethodToolsCall, c.params(meta))
	}
	method := c.Tool
	for _, t := range w.subject.spec.Manifest.Tools {
		if t.Name == c.Tool && t.Method != "" {
			method = t.Method
		}
	}
	return w.request(id, method, string(c.Arguments))
}

// call makes a call and returns the text of its result; failed says that this is
// an error.
func (w *wire) call(ctx context.Context, c *fixtureCall) (text string, failed bool, err error) {
	id := w.newID()
	answer := w.expect(id)
	if err := w.write(w.callLine(id, c, "")); err != nil {
		return "", false, err
	}
	m, err := w.await(ctx, answer, c.String())
	if err != nil {
		return "", false, err
	}
	text, failed = said(m)
	return text, failed, nil
}

// said is what an answer to a call says.
func said(m jsonrpc.Message) (text string, failed bool) {
	if e := rpcError(m); e != nil {
		return e.Message, true
	}
	if text, ok := rawjson.Text(m.Result); ok {
		return text, false
	}
	r := protocol.ToolResult(m.Result)
	if rawjson.Get(m.Result, "content") == nil {
		return string(m.Result), false
	}
	return r.Text(), r.IsError()
}

// mumbling is what children say on stderr.
type mumbling struct {
	mu    sync.Mutex
	lines int
	plain int    // of them, lines without a level
	first string // of the plain ones
}

// hear is told of each line, which the host logs as a warning if it does not say
// how serious it is.
func (m *mumbling) hear(l process.Line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines += 1 + l.Dropped
	if l.Level == slog.LevelWarn && !strings.HasPrefix(l.Text, "W!") {
		m.plain++
		if m.first == "" {
			m.first = l.Text
		}
	}
}

var errNothingToCall = errors.New("no tool may be called")

// sample is a call that may be made as often as one likes: the first of the
// fixture that succeeds, or of a tool that only reads and whose schema says with
// what to call it.
func (s *subject) sample() (*fixtureCall, error) {
	for _, c := range s.fixture.Calls {
		if !c.Cancel && !c.Error && s.entry(c.Tool) != nil {
			return c, nil
		}
	}
	for _, e := range s.entries() {
		if !readOnly(e) {
			continue
		}
		if arguments, ok := exampleOf(e.InputSchema); ok {
			return &fixtureCall{Tool: e.Tool, Arguments: arguments}, nil
		}
	}
	return nil, errNothingToCall
}

// noSample says how to have a call made.
func noSample() error {
	return skipf(`nothing may be called: name a harmless call in %s, {"calls": [{"tool": "…", "arguments": {…}}]}, or annotate a tool with readOnlyHint and give its parameters examples`, fixtureName)
}
