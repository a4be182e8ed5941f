package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/wire"
)

// maxForwarded bounds the memory for forwarded requests, in multiples of MaxBody. The other servers do not bound it,
// since they count only the requests whose responses they still wait for.
const maxForwarded = 8

// New returns a Server for b. It panics if o.Capabilities is not a JSON object.
func New(b Backend, o Options) *Server {
	o = o.withDefaults()
	s := &Server{
		backend:  b,
		options:  o,
		log:      o.Logger,
		headers:  append([]string{"Authorization"}, o.Headers...),
		sessions: &sessions{limit: o.MaxSessions, byID: make(map[string]*clientSession)},
		pending:  pendingCalls{limit: o.MaxSessions, byState: make(map[string]*pendingRequest)},
	}
	s.closing, s.close = context.WithCancel(context.Background())
	if err := json.Unmarshal(o.Capabilities, new(wire.Changes)); err != nil {
		panic("mcpserver: capabilities: " + err.Error())
	}
	if o.Remote != nil {
		s.bodies = mcphttp.NewBudget(maxForwarded * o.MaxBody)
		s.forwarder = newForwarder(s.closing, o.Remote, o.MaxBody, o.Logger)
		o.Remote.ServeForwarded(s.serveForwarded)
	}
	return s
}
