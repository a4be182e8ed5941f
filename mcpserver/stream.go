package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// streamSession is a session with one stream in each direction for answers and all other messages: stdio and SSE.
type streamSession struct {
	*clientSession
	modern  bool                     // serves modern requests too
	running context.Context          // context of requests
	notify  func(m *jsonrpc.Message) // queues notifications for the backend, in order
}

// receive handles one message of the client. Requests run in goroutines; wait waits for them. initialize is answered
// before receive returns, because the client's next messages depend on it. done is called once m is no longer needed.
func (s *streamSession) receive(m *jsonrpc.Message, done func()) {
	if ctx := s.dispatch(m); ctx != nil {
		go func() {
			defer done()
			s.run(ctx, m)
		}()
		return
	}
	done()
}

// dispatch handles a message and returns nil. For a request that run must serve it returns the request's context
// instead.
func (s *streamSession) dispatch(m *jsonrpc.Message) context.Context {
	err := mcphttp.Check(m)
	switch {
	case err != nil:
		s.respond(m.ID, nil, err)
	case m.Method == "":
		s.toClient.deliver(m)
	case m.ID == nil:
		s.handleNotification(m)
	case m.Method == protocol.MethodInitialize:
		result, err := s.initialize(s.attached, m.Params)
		s.respond(m.ID, result, err)
	default:
		ctx, err := s.begin(s.running, m.ID)
		if err == nil {
			return ctx
		}
		s.respond(m.ID, nil, err)
	}
	return nil
}

func (s *streamSession) handleNotification(m *jsonrpc.Message) {
	switch m.Method {
	case protocol.MethodCancelled:
		s.cancel(m.Params)
	case protocol.MethodInitialized:
		s.ready.Store(true)
	default:
		s.notify(m)
	}
}

func (s *streamSession) run(ctx context.Context, m *jsonrpc.Message) {
	defer s.finish()
	result, err := s.serve(ctx, m)
	s.release(m.ID)
	if !errors.Is(context.Cause(ctx), errCancelled) { // a cancelled request gets no answer
		s.respond(m.ID, result, err)
	}
}

func (s *streamSession) serve(ctx context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
	peer := &requestPeer{write: s.write, requests: s.clientSession}
	meta := wire.ReadMeta(m.Params)
	if meta.Version == "" {
		return s.server.serveLegacy(ctx, s.initialized(), m, peer)
	}
	if !s.modern {
		return nil, wire.UnsupportedVersion(meta.Version, wire.Legacy)
	}
	if err := meta.Check(); err != nil {
		return nil, err
	}
	session := s.requester.session(s.front, meta.Version, s.extension, meta.Capabilities)
	session.ClientInfo, session.Instance = meta.ClientInfo, "connection "+s.id
	if m.Method == protocol.MethodListen {
		return s.listen(ctx, session, m)
	}
	peer.requests, peer.noLogs = nil, !meta.WantsLogs
	return s.server.serveModern(ctx, session, m, peer)
}

// listen keeps a subscription open until the client cancels it, or the session or the server ends.
func (s *streamSession) listen(ctx context.Context, session *protocol.Session, m *jsonrpc.Message,
) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.server.subscribe(ctx, session, m, s.write); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.attached.Done():
	case <-s.server.closing.Done():
	}
	return wire.ListenResult(m.ID), nil
}

// initialized returns the session, or nil before initialize. A client that sends any further message has received the
// answer to initialize.
func (s *streamSession) initialized() *protocol.Session {
	info := s.info.Load()
	if info != nil {
		s.ready.Store(true)
	}
	return info
}

// respond sends a response. The transport reports failed writes itself.
func (s *streamSession) respond(id, result json.RawMessage, err error) {
	_ = s.write(s.running, wire.Response(id, result, err))
}
