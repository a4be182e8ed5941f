package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// subject is the extension under test.
type subject struct {
	host     *exthost.Host
	status   status.Extension
	spec     runtime.Spec
	protocol string // native, mcp, lite or exec
	fixture  fixture

	skipRest   error             // set when no further probe can run
	shared     *rawclient.Client // the process that most probes share; nil before the first and after close
	violations []string          // of ended processes
	answered   time.Time         // when the process of the host was last asked something
	ends       []string          // how processes have ended by themselves, without those that a probe has failed by
	stderr     stderrLines
	masks      masks
}

func newSubject(h *exthost.Host, x status.Extension) (*subject, error) {
	s := &subject{host: h, status: x, protocol: x.Protocol}
	if x.Transport == manifest.KindExec {
		s.protocol = manifest.KindExec
	}
	for _, p := range []string{manifest.ProtocolNative, manifest.ProtocolMCP, manifest.ProtocolLite} {
		if strings.HasPrefix(s.protocol, p) {
			s.protocol = p // without the revision
		}
	}
	var err error
	if s.spec, err = h.Admin().Spec(x.ID); err != nil {
		return nil, err
	}
	s.masks.learn(process.Secrets(s.spec.Env)...)
	s.spec.Secret = func(value string) { s.masks.learn(value) }
	s.fixture, err = readFixture(s.spec.Dir)
	if strings.Contains(x.ID, ".") { // an MCP server of .mcp.json, which shares check.json with others
		s.fixture.Calls = slices.DeleteFunc(s.fixture.Calls,
			func(c *fixtureCall) bool { return s.entry(c.Tool) == nil })
	}
	return s, err
}

// entries returns the extension's tools in the host's catalog.
func (s *subject) entries() []*tools.Entry { return s.host.Tools().Extension(s.status.ID) }

// entry returns the tool with this own name, nil if there is none.
func (s *subject) entry(tool string) *tools.Entry {
	e, _ := s.host.Tools().LookupIn(s.status.ID, tool)
	return e
}

func (s *subject) diagnostics() (found []protocol.Diagnostic) {
	for _, d := range s.host.Status().Diagnostics {
		if d.Extension == s.status.ID || d.Path != "" && d.Path == s.status.Path {
			found = append(found, d)
		}
	}
	return found
}

// call makes a call through the host.
func (s *subject) call(ctx context.Context, c *fixtureCall) (protocol.ToolResult, error) {
	e := s.entry(c.Tool)
	if e == nil {
		return nil, fmt.Errorf("%s calls %q, which the extension does not offer; it has %s", fixtureName, c.Tool,
			strings.Join(s.names(), ", "))
	}
	return s.host.Call(ctx, e.Name, json.RawMessage(c.Arguments))
}

func (s *subject) names() (names []string) {
	for _, e := range s.entries() {
		names = append(names, e.Tool)
	}
	return names
}

// client returns the process that most probes share. It starts a new one if the last has ended.
func (s *subject) client(ctx context.Context) (*rawclient.Client, error) {
	if s.shared != nil && !s.shared.Dead() {
		return s.shared, nil
	}
	s.noteEnd()
	s.close()
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.shared = c
	return c, nil
}

func (s *subject) close() {
	if s.shared == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rawclient.Timeout)
	defer cancel()
	s.stop(ctx, s.shared)
	s.shared = nil
}

// noteEnd records the end of the shared process if it has ended by itself.
func (s *subject) noteEnd() {
	if s.shared != nil && s.shared.Dead() {
		s.ends = append(s.ends, s.shared.ExitError(nil).Error())
	}
}

// stop stops a process and records its violations.
func (s *subject) stop(ctx context.Context, c *rawclient.Client) {
	s.violations = append(s.violations, c.Stop(ctx, s.grace())...)
}

// newClient returns a client that has not been started.
func (s *subject) newClient() *rawclient.Client {
	return rawclient.New(rawclient.Options{Spec: &s.spec, Protocol: s.protocol, Stderr: s.stderr.add})
}

// connect starts a process and performs its handshake.
func (s *subject) connect(ctx context.Context) (*rawclient.Client, error) {
	c := s.newClient()
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	if err := c.Handshake(ctx); err != nil {
		s.stop(ctx, c)
		return nil, err
	}
	return c, nil
}

// grace returns how long a process may take to exit. For lite, the grace period is the call timeout, which is too long
// for a test.
func (s *subject) grace() time.Duration { return min(s.spec.Options.ShutdownGrace, rawclient.Timeout) }

// callRaw makes a call and returns the text of its result or error; failed is true for an
// error.
func callRaw(ctx context.Context, c *rawclient.Client, call *fixtureCall) (text string, failed bool, err error) {
	id := c.NewID()
	answer := c.Expect(id)
	if err := c.Write(c.CallRequest(id, call.Tool, call.Arguments, "")); err != nil {
		return "", false, err
	}
	m, err := c.Await(ctx, answer, call.String())
	if err != nil {
		return "", false, err
	}
	text, failed = textOf(m)
	return text, failed, nil
}

func textOf(m jsonrpc.Message) (text string, failed bool) {
	if e := rawclient.Error(m); e != nil {
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

// masks masks the secrets that the processes are given, because a process may quote them on stdout or stderr.
type masks struct {
	redact.Redactor

	mu     sync.Mutex
	values []string
}

func (m *masks) learn(values ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.values, values))))
	m.SetSecrets(m.values)
}

// stderrLines summarizes stderr of all processes.
type stderrLines struct {
	mu    sync.Mutex
	lines int
	plain int    // lines without a level
	first string // the first line without a level
}

// add counts a line. The host logs a line without a level as a warning.
func (m *stderrLines) add(l process.Line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines += 1 + l.Dropped
	if l.Level == slog.LevelWarn && !strings.HasPrefix(l.Text, "W!") {
		m.plain++
		m.first = cmp.Or(m.first, l.Text)
	}
}

var errNothingToCall = errors.New("no tool may be called")

// sample returns a call that may be repeated: the first successful one of the fixture, else
// one of a read-only tool with example arguments in its schema.
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
