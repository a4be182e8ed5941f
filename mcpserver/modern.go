package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

func (e *endpoint) postModern(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	by, meta := requesterFrom(r), wire.ReadMeta(m.Params)
	if by.forwarded && !mayContinue(m, &meta) {
		unknownSession(w)
		return
	}
	switch {
	case m.Method == "":
		http.Error(w, "responses are not accepted in "+protocol.MCP20260728, http.StatusBadRequest)
		return
	case m.ID == nil:
		// Clients of 2026-07-28 send no notifications over HTTP; an extension of the protocol may.
		e.notify(r.Context(), by.session(protocol.FrontHTTP, protocol.MCP20260728, e.extension, nil), m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	session := e.modernSession(r, by, &meta)
	if home := e.homeOfCall(r, m); home != "" {
		e.forwarder.call(w, r, e.forwardable(r, endpointMCP), home, m)
		return
	}
	err := meta.CheckHeaders(r.Header, m)
	if err == nil {
		err = e.checkMirrored(r.Header, session, m)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, m.ID, err)
		return
	}
	if m.Method == protocol.MethodListen {
		e.postListen(w, r, session, m)
		return
	}
	begun := e.forwarder != nil && strings.HasPrefix(m.Method, protocol.TaskMethods)
	switch {
	case e.run(w, r, session, m, &requestPeer{noLogs: !meta.WantsLogs, begun: begun}):
	case by.forwarded:
		unknownSession(w)
	case !e.forwarder.task(w, r, e.forwardable(r, endpointMCP), m):
		e.run(w, r, session, m, &requestPeer{noLogs: !meta.WantsLogs}) // the extension may know the task
	}
}

// mayContinue reports whether m is a request about a task, or one that may continue a pending call.
func mayContinue(m *jsonrpc.Message, meta *wire.Meta) bool {
	return m.ID != nil &&
		(strings.HasPrefix(m.Method, protocol.TaskMethods) || wire.MayAsk(m.Method, meta.Capabilities))
}

// modernSession returns the session of one modern request. It warns once if clients cannot be told apart.
func (e *endpoint) modernSession(r *http.Request, by requester, meta *wire.Meta) *protocol.Session {
	session := by.session(protocol.FrontHTTP, meta.Version, e.extension, meta.Capabilities)
	session.ClientInfo = meta.ClientInfo
	session.Instance = wire.Instance(meta.ClientInfo, r.RemoteAddr)
	if session.Instance == "" && by.caller == "" {
		e.nameless.Do(func() {
			e.log.Warn("clients of MCP "+protocol.MCP20260728+
				" that state neither clientInfo nor a token cannot be told apart: policies with limits per session "+
				"count them as one",
				"next", "server.auth gives callers names")
		})
	}
	return session
}

// run serves a request. If peer.begun is set and this server did not begin the task that the request is about, run
// returns false without writing to w.
func (e *endpoint) run(w http.ResponseWriter, r *http.Request, session *protocol.Session, m *jsonrpc.Message,
	peer *requestPeer) bool {
	reply := mcphttp.NewReply(w, r)
	defer reply.Close()
	peer.write = reply.Send
	if wire.MayAsk(m.Method, session.Capabilities) && reply.MayDetach() {
		peer.early = func(result json.RawMessage) error { return reply.Detach(wire.Response(m.ID, result, nil)) }
	}
	result, err := e.serveModern(r.Context(), session, m, peer)
	switch {
	case peer.begun && errors.Is(err, protocol.ErrNoTask):
		return false
	case err != errAnsweredEarly:
		e.answer(reply, wire.Status(m.Method, err), wire.Response(m.ID, result, err))
	}
	return true
}

// checkMirrored returns an error for a tools/call whose headers do not repeat the arguments that the tool's schema
// marks with x-mcp-header. An intermediary may have routed by these headers.
func (e *endpoint) checkMirrored(h http.Header, session *protocol.Session, m *jsonrpc.Message) error {
	mirrored, ok := e.backend.(Mirrored)
	if !ok || m.Method != protocol.MethodToolsCall {
		return nil
	}
	name, _ := rawjson.Text(rawjson.Get(m.Params, "name"))
	schema := mirrored.Mirrored(session, name)
	if schema == nil {
		return nil
	}
	if err := mcphttp.CheckParams(h, m.Params, schema); err != nil {
		return wire.HeaderMismatch(err.Error())
	}
	return nil
}

// postListen serves a subscription until the client disconnects, its access token expires or the server ends.
func (e *endpoint) postListen(w http.ResponseWriter, r *http.Request, session *protocol.Session, m *jsonrpc.Message) {
	if !e.admit(w, r) {
		return
	}
	defer e.sessions.release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	outbox := mcphttp.NewOutbox()
	if err := e.subscribe(ctx, session, m, outbox.Offer); err != nil {
		refuse(w, wire.Status(m.Method, err), m.ID, err)
		return
	}
	end := sync.OnceFunc(func() {
		_ = outbox.Offer(ctx, wire.Response(m.ID, wire.ListenResult(m.ID), nil))
		outbox.Close()
	})
	valid, stop := whileValid(context.WithoutCancel(ctx)) // a client that disconnected gets no last messages
	defer stop()
	defer context.AfterFunc(valid, end)()
	defer context.AfterFunc(e.closing, end)()
	if err := outbox.Serve(ctx, w, ""); err != nil && ctx.Err() == nil {
		e.log.Debug("a client stopped reading its subscription", "error", err)
	}
}
