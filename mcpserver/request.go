package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

var (
	emptyObject    = json.RawMessage("{}")
	errInitialized = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session is already initialized"}
)

// serveLegacy runs a request of a session, which is nil before initialize. Its
// callers handle the first initialize.
func (s *Server) serveLegacy(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer) (json.RawMessage, error) {
	switch m.Method {
	case protocol.MethodPing:
		return emptyObject, nil
	case protocol.MethodDiscover, protocol.MethodListen:
		return nil, wire.MethodNotFound(m.Method)
	case protocol.MethodInitialize:
		return nil, errInitialized
	}
	if session == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "not initialized: send initialize first, or " + protocol.MetaProtocolVersion + " in _meta"}
	}
	return s.do(ctx, session, m, peer)
}

// removed are the legacy methods that 2026-07-28 does not have.
var removed = map[string]bool{
	protocol.MethodInitialize: true, protocol.MethodPing: true, protocol.MethodSetLevel: true,
	protocol.MethodResourcesSubscribe: true, protocol.MethodResourcesUnsubscribe: true,
}

// serveModern runs a modern request. Its callers handle subscriptions/listen.
func (s *Server) serveModern(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer) (json.RawMessage, error) {
	if removed[m.Method] {
		return nil, wire.MethodNotFound(m.Method)
	}
	if m.Method == protocol.MethodDiscover {
		return s.discoverResult(ctx, session)
	}
	run := s.do
	if mayAsk(session, m) {
		run = s.doWithInput
	}
	result, err := run(ctx, session, m, peer)
	if err != nil {
		return nil, err
	}
	return wire.Complete(m.Method, result), nil
}

func (s *Server) do(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer) (json.RawMessage, error) {
	result, err := s.backend.Do(ctx, &protocol.Call{Session: session, Extension: session.Extension, Method: m.Method, Params: m.Params, Client: peer})
	peer.answered.Store(true)
	if err != nil {
		if failure := wire.ToolFailure(m.Method, err); failure != nil {
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

func (s *Server) notify(ctx context.Context, session *protocol.Session, m *jsonrpc.Message) {
	_, err := s.backend.Do(ctx, &protocol.Call{Session: session, Extension: session.Extension, Method: m.Method, Params: m.Params, Notify: true})
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

// initializeResult returns the result of initialize (MCP 2025-11-25, basic/lifecycle).
func (s *Server) initializeResult(ctx context.Context, session *protocol.Session) (json.RawMessage, error) {
	d, err := s.describe(ctx, session)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    string          `json:"instructions,omitempty"`
	}{session.Version, d.Capabilities, d.ServerInfo, d.Instructions})
}

func (s *Server) discoverResult(ctx context.Context, session *protocol.Session) (json.RawMessage, error) {
	d, err := s.describe(ctx, session)
	if err != nil {
		return nil, err
	}
	result, err := json.Marshal(struct {
		SupportedVersions []string                   `json:"supportedVersions"`
		Capabilities      json.RawMessage            `json:"capabilities"`
		Instructions      string                     `json:"instructions,omitempty"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	}{wire.Revisions, d.Capabilities, d.Instructions, map[string]json.RawMessage{protocol.MetaServerInfo: d.ServerInfo}})
	if err != nil {
		return nil, err
	}
	return wire.Complete(protocol.MethodDiscover, result), nil
}
