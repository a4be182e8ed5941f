package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// backendFunc is a backend with one function.
type backendFunc func(ctx context.Context, c *protocol.Call) (json.RawMessage, error)

func (backendFunc) Attach(context.Context, *protocol.Session) error { return nil }

func (f backendFunc) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	return f(ctx, c)
}

// A client may have read its question completely although the write of the question failed. When the client returns, it
// gets the outcome of the call, which has ended.
func TestClientComesBackAfterAFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(backendFunc(func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
			return c.Client.Call(ctx, "roots/list", nil)
		}), Options{})
		defer s.Close()
		session := &protocol.Session{Version: protocol.MCP20260728, Capabilities: json.RawMessage(`{"roots":{}}`)}
		came := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		first := &requestPeer{write: func(context.Context, *jsonrpc.Message) error { return nil }}
		first.early = func(result json.RawMessage) error {
			state, _ := rawjson.Text(rawjson.Get(result, "requestState"))
			p := s.pending.get(state)
			if !s.pending.remove(state, p) {
				t.Error("the client cannot come back")
			}
			go func() {
				_, err := p.resume(ctx, first.write, nil)
				came <- err
			}()
			return errors.New("the last bytes were not written")
		}
		_, err := s.doWithInput(t.Context(), session,
			&jsonrpc.Message{Method: protocol.MethodToolsCall, Params: json.RawMessage(`{}`)}, first)
		if err != errAnsweredEarly {
			t.Errorf("the request itself: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-came:
			if protocol.KindOf(err) != protocol.Canceled {
				t.Errorf("the outcome: %v", err)
			}
		default:
			t.Error("the client waits for an outcome that nobody has")
		}
	})
}

// A panic of the backend ends only its own request, as in net/http. A client that was asked something gets an error
// instead of waiting.
func TestPanicEndsACallThatHasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(backendFunc(func(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
			_, _ = c.Client.Call(ctx, "roots/list", nil)
			panic("of the backend")
		}), Options{})
		defer s.Close()
		session := &protocol.Session{Version: protocol.MCP20260728, Capabilities: json.RawMessage(`{"roots":{}}`)}
		asked := make(chan json.RawMessage, 1)
		peer := &requestPeer{write: func(context.Context, *jsonrpc.Message) error { return nil },
			early: func(result json.RawMessage) error { asked <- result; return nil }}
		go func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_, _ = s.doWithInput(t.Context(), session,
				&jsonrpc.Message{Method: protocol.MethodToolsCall, Params: json.RawMessage(`{}`)}, peer)
		}()
		state, _ := rawjson.Text(rawjson.Get(<-asked, "requestState"))
		p := s.pending.get(state)
		if !s.pending.remove(state, p) {
			t.Fatal("the client cannot come back")
		}
		came := make(chan error, 1)
		go func() {
			_, err := p.resume(t.Context(), peer.write, json.RawMessage(`{"q1":{}}`))
			came <- err
		}()
		synctest.Wait()
		select {
		case err := <-came:
			if protocol.KindOf(err) != protocol.ExtensionError {
				t.Errorf("the outcome: %v", err)
			}
		default:
			t.Error("the client waits for an outcome that never comes")
		}
	})
}
