package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// patience bounds every wait in the tests. No test depends on how long a wait takes.
const patience = 60 * time.Second

// fake is a backend with scripted tools.
type fake struct {
	attached chan *protocol.Session // every attached session
	detached chan string            // ids of sessions whose context has ended
	calls    chan *protocol.Call    // calls of the tools "hang" and "finish", and of all methods other than tools/*
	finish   chan struct{}          // ends a call of the tool "finish"
	ended    chan error             // the cause that ended a call of the tool "hang"
	refuse   error                  // the error of Attach
	eager    bool                   // Attach notifies the client before it returns

	mu   sync.Mutex
	live map[*protocol.Session]context.Context
}

func newFake() *fake {
	return &fake{
		attached: make(chan *protocol.Session, 64),
		detached: make(chan string, 64),
		calls:    make(chan *protocol.Call, 64),
		finish:   make(chan struct{}),
		ended:    make(chan error, 64),
		live:     make(map[*protocol.Session]context.Context),
	}
}

func (f *fake) Attach(ctx context.Context, s *protocol.Session) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.mu.Lock()
	f.live[s] = ctx
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		delete(f.live, s)
		f.mu.Unlock()
		f.detached <- s.ID
	})
	if f.eager {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_ = s.Client.Notify(ctx, protocol.MethodToolsListChanged, nil)
	}
	f.attached <- s
	return nil
}

// announce sends tools/list_changed to every attached session.
func (f *fake) announce() {
	f.mu.Lock()
	var clients []protocol.Peer
	for s := range f.live {
		clients = append(clients, s.Client)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, c := range clients {
		_ = c.Notify(ctx, protocol.MethodToolsListChanged, nil)
	}
}

const toolsList = `{"tools":[{"name":"echo","x-unknown":12345678901234567890,"inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"count","inputSchema":{"type":"object"}}]}`

func (f *fake) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	switch c.Method {
	case protocol.MethodToolsList:
		return json.RawMessage(toolsList), nil
	case protocol.MethodToolsCall:
		return f.tool(ctx, c)
	case "test/unknown":
		return nil, protocol.Errorf(protocol.ToolNotFound, "method %q is not served here", c.Method)
	case "test/unencodable":
		return nil, fmt.Errorf("plain failure")
	}
	f.calls <- c
	return c.Params, nil
}

func (f *fake) tool(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	args := rawjson.Get(c.Params, "arguments")
	switch name := string(rawjson.Get(c.Params, "name")); name {
	case `"echo"`:
		return append(append([]byte(`{"content":[],"structuredContent":`), args...), '}'), nil
	case `"hang"`:
		f.calls <- c
		<-ctx.Done()
		f.ended <- context.Cause(ctx)
		return nil, ctx.Err()
	case `"finish"`: // when the test lets it
		f.calls <- c
		select {
		case <-f.finish:
			return json.RawMessage(`{"content":[]}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case `"count"`: // three progress notifications and a log message, then the answer
		token := rawjson.Get(rawjson.Get(c.Params, "_meta"), "progressToken")
		for i := range 3 {
			params := fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, i)
			if err := c.Client.Notify(ctx, protocol.MethodProgress, json.RawMessage(params)); err != nil {
				return nil, err
			}
		}
		err := c.Client.Notify(ctx, protocol.MethodMessage, json.RawMessage(`{"level":"info","data":"counted"}`))
		return json.RawMessage(`{"content":[{"type":"text","text":"3"}]}`), err
	case `"ask"`:
		answer, err := c.Client.Call(ctx, "roots/list", nil)
		if err != nil {
			return nil, err
		}
		return append(append([]byte(`{"content":[],"structuredContent":`), answer...), '}'), nil
	case `"bad"`:
		return nil, protocol.Errorf(protocol.InvalidArguments, "argument city is missing")
	case `"child"`:
		return nil, &protocol.Error{
			Kind:    protocol.ExtensionError,
			Code:    -32021,
			Message: "needs sampling",
			Data:    json.RawMessage(`{"requiredCapabilities":{"sampling":{}}, "n":12345678901234567890}`),
		}
	default:
		return nil, protocol.Errorf(protocol.ToolNotFound, "there is no tool %s", name)
	}
}

// get takes one value from c, or fails the test.
func get[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
