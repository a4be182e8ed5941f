package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// serveLegacy runs a request of a session, nil before initialize. The first
// initialize is not among them.
func (s *Server) serveLegacy(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, client *requestClient) (json.RawMessage, error) {
	switch m.Method {
	case protocol.MethodPing:
		return emptyObject, nil
	case protocol.MethodDiscover, protocol.MethodListen:
		return nil, methodNotFound(m.Method)
	case protocol.MethodInitialize:
		return nil, errInitialized
	}
	if session == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "not initialized: send initialize first, or " + protocol.MetaProtocolVersion + " in _meta"}
	}
	return s.do(ctx, session, m, client)
}

// serveStateless runs a request that brings its context along.
// subscriptions/listen is not among them.
func (s *Server) serveStateless(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, client *requestClient) (json.RawMessage, error) {
	if removed[m.Method] {
		return nil, methodNotFound(m.Method)
	}
	if m.Method == protocol.MethodDiscover {
		return s.discoverResult(ctx, session)
	}
	result, err := s.run(ctx, session, m, client)
	if err != nil {
		return nil, err
	}
	return complete(m.Method, result), nil
}

// run has the backend run a request of a stateless client, which may be answered
// with questions if the client could answer any.
func (s *Server) run(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, client *requestClient) (json.RawMessage, error) {
	if !holdable[m.Method] || !answerable(session.Capabilities) {
		return s.do(ctx, session, m, client)
	}
	if result, err, ok := s.resume(ctx, session, m, client); ok {
		return result, err
	}
	return s.hold(ctx, session, m, client)
}

var errInitialized = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session is already initialized"}

// removed are the methods that 2026-07-28 did away with.
var removed = map[string]bool{
	protocol.MethodInitialize: true, protocol.MethodPing: true, protocol.MethodSetLevel: true,
	protocol.MethodResourcesSubscribe: true, protocol.MethodResourcesUnsubscribe: true,
}

func methodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method " + method + " is not served here"}
}

// do has the backend run a request.
func (s *Server) do(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, client *requestClient) (json.RawMessage, error) {
	result, err := s.backend.Do(ctx, &protocol.Call{Session: session, Extension: session.Extension, Method: m.Method, Params: m.Params, Client: client})
	client.over.Store(true)
	if err != nil {
		if failure := toolFailure(m.Method, err); failure != nil {
			return failure, nil
		}
		if errors.Is(context.Cause(ctx), errCancelled) {
			err = errCancelled
		}
		return nil, err
	}
	if result == nil {
		return emptyObject, nil
	}
	return result, nil
}

// tell passes a notification of the client on.
func (s *Server) tell(ctx context.Context, session *protocol.Session, m *jsonrpc.Message) {
	_, err := s.backend.Do(ctx, &protocol.Call{Session: session, Extension: session.Extension, Method: m.Method, Params: m.Params, Notify: true})
	if err != nil {
		s.log.Debug("a client's notification was not delivered", "method", m.Method, "error", err)
	}
}
