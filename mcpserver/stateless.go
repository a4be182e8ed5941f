package mcpserver

import (
	"context"
	"errors"
	"net/http"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// postStateless takes a message that brings its context along.
func (s *httpFront) postStateless(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	visit, meta := visitOf(r.Context()), readMeta(m.Params)
	switch {
	case m.Method == "":
		http.Error(w, "responses are not accepted in "+protocol.MCP20260728, http.StatusBadRequest)
		return
	case m.ID == nil:
		// The revision has none of its own; an extension of it may.
		s.tell(r.Context(), &protocol.Session{Caller: visit.caller, Env: visit.env, Version: protocol.MCP20260728, Extension: s.extension}, m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := checkStateless(r.Header, meta, m); err != nil {
		refuse(w, http.StatusBadRequest, m.ID, err)
		return
	}
	session := meta.session(visit, s.extension)
	if err := s.checkMirrored(r.Header, session, m); err != nil {
		refuse(w, http.StatusBadRequest, m.ID, err)
		return
	}
	if m.Method == protocol.MethodListen {
		s.postListen(w, r, meta, m)
		return
	}
	reply := mcphttp.NewReply(w, r)
	defer reply.Close()
	client := &requestClient{write: reply.Send, quiet: !meta.logs}
	result, err := s.serveStateless(r.Context(), session, m, client)
	s.answer(reply, statusOf(m.Method, err), respond(m.ID, result, err))
}

// checkStateless refuses a request whose headers and _meta do not say the same,
// or not enough.
func checkStateless(h http.Header, meta requestMeta, m *jsonrpc.Message) error {
	version := h.Get(mcphttp.VersionHeader)
	switch {
	case version == "":
		return headerMismatch("header " + mcphttp.VersionHeader + " is required")
	case meta.version != "" && version != meta.version:
		return headerMismatch("header " + mcphttp.VersionHeader + " is " + version + ", " + protocol.MetaProtocolVersion + " " + meta.version)
	case version != protocol.MCP20260728:
		return unsupportedVersion(version, revisions)
	}
	if err := mcphttp.CheckHeaders(h, m); err != nil {
		return headerMismatch(err.Error())
	}
	return meta.check()
}

// checkMirrored refuses a call whose headers do not repeat the arguments that they are
// to repeat: what an intermediary routed on must be what is run.
func (s *httpFront) checkMirrored(h http.Header, session *protocol.Session, m *jsonrpc.Message) error {
	known, ok := s.backend.(Mirrored)
	if !ok || m.Method != protocol.MethodToolsCall {
		return nil
	}
	name, _ := rawjson.Text(rawjson.Get(m.Params, "name"))
	schema := known.Mirrored(session, name)
	if schema == nil {
		return nil
	}
	if err := mcphttp.CheckParams(h, m.Params, schema); err != nil {
		return headerMismatch(err.Error())
	}
	return nil
}

func headerMismatch(text string) error {
	return &jsonrpc.Error{Code: codeHeaderMismatch, Message: text}
}

// statusOf maps the outcome of a request to the status of its answer: 404 for a
// method that is not served, but not for a tool that does not exist; 400 for what
// is refused here and for the codes that ask for it; 200 for all else, failures
// of an extension included.
func statusOf(method string, err error) int {
	var own *jsonrpc.Error
	var e *protocol.Error
	code := 0
	switch {
	case errors.As(err, &own):
		if own.Code == jsonrpc.CodeMethodNotFound {
			return http.StatusNotFound
		}
		return http.StatusBadRequest
	case errors.As(err, &e):
		code = e.Wire().Code
	}
	switch code {
	case jsonrpc.CodeMethodNotFound:
		if method != protocol.MethodToolsCall {
			return http.StatusNotFound
		}
	case codeHeaderMismatch, codeMissingCapability, codeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// postListen serves a subscription until the client closes it or the server ends.
func (s *httpFront) postListen(w http.ResponseWriter, r *http.Request, meta requestMeta, m *jsonrpc.Message) {
	if !s.admit(w, r) {
		return
	}
	defer s.sessions.give()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	outbox := mcphttp.NewOutbox()
	if err := s.subscribe(ctx, meta.session(visitOf(ctx), s.extension), m, outbox.Offer); err != nil {
		refuse(w, statusOf(m.Method, err), m.ID, err)
		return
	}
	stop := context.AfterFunc(s.closing, func() {
		_ = outbox.Offer(ctx, respond(m.ID, endOfSubscription(m.ID), nil))
		outbox.Close()
	})
	defer stop()
	if err := outbox.Serve(ctx, w, ""); err != nil && ctx.Err() == nil {
		s.log.Debug("a client stopped reading its subscription", "error", err)
	}
}
