package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"maps"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/protocol"
)

// drainTimeout is how long running tools may still answer after the host has closed stdin.
const drainTimeout = 3 * time.Second

// Extension is a set of tools and hooks. Add all of them before calling [Extension.Main] or [Extension.Serve].
type Extension struct {
	version string
	tools   map[string]*tool
	order   []string
	hooks   map[string]hook // by point
	setup   func(ctx context.Context, s Setup) error
	policy  Policy

	mu       sync.Mutex
	inFlight []*call
	conn     *jsonrpc.Conn
}

// tool is one registered tool.
type tool struct {
	descriptor json.RawMessage
	call       func(ctx context.Context, arguments json.RawMessage) (answer jsonrpc.Message, err error)
}

// New returns an extension of the given version, which the host displays.
func New(version string) *Extension {
	return &Extension{version: version, tools: make(map[string]*tool)}
}

// Setup is what the host sends when it opens the connection.
type Setup struct {
	ExtensionID string          // this extension's id
	HostVersion string          // semver
	StateDir    string          // private to this extension, survives restarts
	Config      json.RawMessage // the merged [config], valid against [config_schema]
}

// OnSetup sets a function to run before the first call. An error of f fails the start and is shown to the operator.
// OnSetup panics if called twice.
func (x *Extension) OnSetup(f func(ctx context.Context, s Setup) error) {
	if x.setup != nil {
		panic("sdk: OnSetup is called twice")
	}
	x.setup = f
}

// slack is the size of memory that is allocated and never touched, so that it stays virtual. The garbage collector
// counts it as live, and so lets 8 MiB more of garbage pile up: a small program would otherwise collect after 4 MiB,
// a few large results.
const slack = 8 << 20 // bytes

// Main serves the host on stdin and stdout until the host closes the connection, and returns the exit code. It
// sets os.Stdout to os.Stderr.
func (x *Extension) Main() int {
	out := os.Stdout
	os.Stdout = os.Stderr
	defer runtime.KeepAlive(make([]byte, slack))
	if err := x.serve(context.Background(), os.Stdin, out); err != nil {
		fmt.Fprintln(os.Stderr, "E! "+err.Error())
		return 1
	}
	return 0
}

// Serve serves one host on r and w, and closes both. It returns nil after the host has closed the connection, or
// ctx's error. While it runs, pipes and sockets are in non-blocking mode, so that ctx can end a read.
func (x *Extension) Serve(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
	r, release := ndjson.Pollable(r)
	defer release()
	return x.serve(ctx, r, w)
}

// serve is Serve, except that the end of ctx does not interrupt a read of r. Main passes a blocking r, because a
// thread that blocks in a read wakes up in half the poller's time. serve makes w non-blocking, so that an answer that
// fits the buffer of w needs no other goroutine.
func (x *Extension) serve(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
	w, release := ndjson.Pollable(w)
	defer release()
	conn := jsonrpc.NewConn(ndjson.New(r, w, ndjson.Options{}), jsonrpc.Options{
		Handle:      x.handle,
		Notified:    x.notified,
		Inline:      true,
		MaxHandlers: 1024,
		Drain:       drainTimeout,
	})
	x.mu.Lock()
	x.conn = conn
	x.mu.Unlock()
	err := conn.Serve(ctx)
	if errors.Is(err, io.EOF) || errors.Is(err, jsonrpc.ErrClosed) {
		return nil
	}
	return err
}

func (x *Extension) handle(ctx context.Context, req *jsonrpc.Message) (json.RawMessage, error) {
	switch req.Method {
	case protocol.MethodToolsCall:
		return x.call(ctx, req)
	case protocol.MethodDecide:
		return x.decide(ctx, req)
	case protocol.MethodPing:
		return json.RawMessage("{}"), nil
	case protocol.MethodInitialize:
		return x.initialize(ctx, req.Params)
	case protocol.MethodToolsList:
		return json.Marshal(map[string]any{"tools": x.descriptors()})
	case protocol.MethodShutdown:
		return json.RawMessage("{}"), nil // the host closes stdin next
	}
	if strings.HasPrefix(req.Method, protocol.MethodHookPrefix) {
		return x.runHook(ctx, req)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + req.Method}
}

func (x *Extension) initialize(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p protocol.InitializeParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, invalidParams("initialize: " + err.Error())
	}
	if p.ProtocolVersion > protocol.Version {
		return nil, invalidParams(fmt.Sprintf("this extension speaks version %d of the protocol, the host %d",
			protocol.Version, p.ProtocolVersion))
	}
	if x.setup != nil {
		err := x.setup(ctx, Setup{
			ExtensionID: p.ExtensionID,
			HostVersion: p.AgentVersion,
			StateDir:    p.StateDir,
			Config:      p.Config,
		})
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(protocol.InitializeResult{
		ServerVersion:   x.version,
		ProtocolVersion: protocol.Version,
		Tools:           x.descriptors(),
		Hooks:           slices.Sorted(maps.Keys(x.hooks)),
	})
}

func (x *Extension) descriptors() []json.RawMessage {
	list := make([]json.RawMessage, len(x.order))
	for i, name := range x.order {
		list[i] = x.tools[name].descriptor
	}
	return list
}

// call runs a tool. The tool's error becomes a result with isError for the model, an [*Error] a JSON-RPC error.
func (x *Extension) call(ctx context.Context, req *jsonrpc.Message) (json.RawMessage, error) {
	var name, arguments json.RawMessage
	rawjson.Each(req.Params, func(key []byte, value json.RawMessage) bool {
		switch string(key) {
		case "name":
			name = value
		case "arguments":
			arguments = value
		}
		return true
	})
	if len(name) == 0 || name[0] != '"' {
		return nil, invalidParams("tools/call needs a name")
	}
	t, ok := x.tools[string(rawjson.Unquote(name))]
	if !ok {
		return nil, invalidParams("there is no tool " + string(name))
	}
	c := x.begin(ctx, req)
	defer x.end(c)
	answer, err := recovered(c, "tool", t.call, arguments)
	if wire, ok := errors.AsType[*Error](err); ok && wire != nil {
		return nil, (*jsonrpc.Error)(wire)
	}
	if err != nil {
		answer.Encoder = textResult{err.Error(), true}
	}
	req.Encoder = answer.Encoder
	return answer.Result, nil
}

// begin returns the context of a call, which notified can cancel until end is called.
func (x *Extension) begin(ctx context.Context, req *jsonrpc.Message) *call {
	c := &call{Context: ctx, extension: x, id: req.ID, params: req.Params}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inFlight = append(x.inFlight, c)
	return c
}

// recovered calls a function of the author. A panic becomes an error, and its stack goes to stderr.
func recovered[In, Out any](ctx context.Context, what string, f func(context.Context, In) (Out, error), in In,
) (out Out, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "E! panic: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("the %s panicked: %v", what, p)
		}
	}()
	if out, err = f(ctx, in); err != nil {
		_ = err.Error() // panics here for an error that is a nil pointer, rather than when the call is answered
	}
	return out, err
}

func (x *Extension) end(c *call) {
	x.mu.Lock()
	i := slices.Index(x.inFlight, c)
	last := len(x.inFlight) - 1
	x.inFlight[i], x.inFlight[last] = x.inFlight[last], nil
	x.inFlight = x.inFlight[:last]
	x.mu.Unlock()
	c.end()
}

// notified cancels the call that notifications/cancelled names.
func (x *Extension) notified(_ context.Context, n *jsonrpc.Message) {
	if n.Method != protocol.MethodCancelled {
		return
	}
	id := rawjson.Get(n.Params, "requestId")
	x.mu.Lock()
	var given *call
	for _, c := range x.inFlight {
		if bytes.Equal(c.id, id) {
			given = c
		}
	}
	x.mu.Unlock()
	if given != nil {
		given.end()
	}
}

// Error is a protocol failure rather than a tool's: the caller gets a JSON-RPC error with this code and data.
type Error jsonrpc.Error

func (e *Error) Error() string { return e.Message }

func invalidParams(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// add registers a tool. It panics if the name is invalid or taken.
func (x *Extension) add(name string, t *tool) {
	if len(name) > 128 || !toolName.MatchString(name) {
		panic(fmt.Sprintf("sdk: tool %q: a name is 1 to 128 of A-Z a-z 0-9 _ . -", name))
	}
	if _, taken := x.tools[name]; taken {
		panic("sdk: tool " + name + " is added twice")
	}
	x.tools[name] = t
	x.order = append(x.order, name)
	slices.Sort(x.order) // the same list at every start
}
