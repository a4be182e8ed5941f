package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

var (
	emptyObject    = json.RawMessage("{}")
	errInitialized = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session is already initialized"}
)

// serveLegacy serves a request of a session; session is nil before initialize. The first initialize is handled by its
// callers.
func (s *Server) serveLegacy(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer,
) (json.RawMessage, error) {
	switch m.Method {
	case protocol.MethodPing:
		return emptyObject, nil
	case protocol.MethodDiscover, protocol.MethodListen:
		return nil, wire.MethodNotFound(m.Method)
	case protocol.MethodInitialize:
		return nil, errInitialized
	}
	if session == nil {
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: "not initialized: send initialize first, or " + protocol.MetaProtocolVersion + " in _meta",
		}
	}
	return s.do(ctx, session, m, peer)
}

// serveModern serves a modern request other than subscriptions/listen.
func (s *Server) serveModern(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer,
) (json.RawMessage, error) {
	if wire.Removed[m.Method] {
		return nil, wire.MethodNotFound(m.Method)
	}
	if m.Method == protocol.MethodDiscover {
		d, err := s.describe(ctx, session)
		if err != nil {
			return nil, err
		}
		return wire.DiscoverResult(d)
	}
	run := s.do
	if wire.MayAsk(m.Method, session.Capabilities) {
		run = s.doWithInput
	}
	result, err := run(ctx, session, m, peer)
	if err != nil {
		return nil, err
	}
	return wire.Complete(m.Method, result), nil
}

func (s *Server) do(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer,
) (json.RawMessage, error) {
	result, err := s.backend.Do(ctx,
		&protocol.Call{
			Session:   session,
			Extension: session.Extension,
			Method:    m.Method,
			Params:    m.Params,
			Begun:     peer.begun,
			Client:    peer,
		})
	peer.answered.Store(true)
	if err != nil {
		if failure := wire.ToolFailure(m.Method, err); failure != nil && !s.reportsError(err) {
			return failure, nil
		}
		if errors.Is(context.Cause(ctx), errCancelled) {
			err = insteadOf(err, errCancelled)
		}
		return nil, wire.ForMethod(m.Method, err)
	}
	if result == nil {
		return emptyObject, nil
	}
	return result, nil
}

// reportsError reports whether err is a rejection that the backend wants to be an error.
func (s *Server) reportsError(err error) bool {
	b, ok := s.backend.(RejectionReporter)
	return ok && protocol.KindOf(err) == protocol.Rejected && b.RejectionErrors()
}

// insteadOf returns e as a replacement for err. Its outcome is unknown if, according to err, the call may have run.
func insteadOf(err error, e *protocol.Error) error {
	told := *e
	if failed, ok := errors.AsType[*protocol.Error](err); !ok || failed.Outcome != "" ||
		failed.Kind == protocol.ExtensionError {
		told.Outcome = "unknown"
	}
	return &told
}

func (s *Server) notify(ctx context.Context, session *protocol.Session, m *jsonrpc.Message) {
	_, err := s.backend.Do(ctx,
		&protocol.Call{
			Session:   session,
			Extension: session.Extension,
			Method:    m.Method,
			Params:    m.Params,
			Notify:    true,
		})
	if err != nil {
		s.log.Debug("a client's notification was not delivered", "method", m.Method, "error", err)
	}
}

func (s *Server) describe(ctx context.Context, session *protocol.Session) (d protocol.Description, err error) {
	d.Capabilities, d.Instructions = s.options.Capabilities, s.options.Instructions
	if describer, ok := s.backend.(Describer); ok {
		if d, err = describer.Describe(ctx, session); err != nil {
			return d, err
		}
	}
	if d.ServerInfo == nil {
		d.ServerInfo, err = json.Marshal(map[string]string{"name": s.options.Name, "version": s.options.Version})
	}
	return d, err
}
